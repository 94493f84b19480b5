"""Lines and records to metric rows: the only parser of what trainings print.

`row`: what a row is. `parser`: lines → rows, with `families` (formats as data), `tables`, the `grammar` of a
line and a user's own `patterns`. `axis`: where rows stand. `names`: what a metric's name says.
"""

from monitors.metrics.patterns import MetricPatterns as MetricPatterns
from monitors.metrics.row import Row as Row
from monitors.metrics.row import row_from_object as row_from_object
