"""scikit-learn: a network on the digits that come with it, with its own verbose output."""

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

inputs, digits = load_digits(return_X_y=True)
train, test, train_digits, test_digits = train_test_split(inputs / 16, digits, random_state=0)
network = MLPClassifier((32,), max_iter=40, verbose=True, early_stopping=True, random_state=0)
network.fit(train, train_digits)
print(f"Test accuracy: {network.score(test, test_digits):.4f}")
