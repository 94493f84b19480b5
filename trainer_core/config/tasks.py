"""`ajet.task_reader` and `ajet.task_judge`: where questions come from and how answers are rewarded."""

from typing import Any, Literal

from pydantic import Field

from trainer_core.config.section import Fraction, NotNegative, Positive, Section


class JsonlFile(Section):
    """One file with one JSON object per line."""

    file_path: str | None = Field(default=None, description="The file, seen from the working directory.")


class JsonlDataset(Section):
    """Questions in files of one JSON object per line."""

    training: JsonlFile = Field(default_factory=JsonlFile, description="Questions to train on.")
    validation: JsonlFile = Field(default_factory=JsonlFile, description="Questions never trained on.")


class EnvService(Section, but={"address or key of a service": "env_url"}):
    """Questions and environments served by a running environment service."""

    env_type: str = Field(default="appworld", description="Kind of environment asked for.")
    env_url: str = Field(default="http://127.0.0.1:8080", description="Address of the service.")
    env_action_preference: Literal["code", "text", "box"] = Field(
        default="code", description="Form of the agent's actions."
    )
    training_split: str = Field(default="train", description="Split to train on.")
    validation_split: str = Field(default="dev", description="Split to validate on.")


class HuggingFaceDataset(Section, but={"address or key of a service": "http_proxy_address"}):
    """Questions of a Hugging Face dataset."""

    dataset_path: str = Field(default="gsm8k", description="Name on the hub, or a local folder.")
    dataset_name: str | None = Field(
        default=None, description="Configuration of the dataset, such as `main`."
    )
    training_split: str = Field(default="train", description="Split to train on.")
    validation_split: str = Field(default="validation", description="Split to validate on.")
    http_proxy_address: str | None = Field(default=None, description="Proxy used for the download.")


class DocumentReader(Section, but={"how the training runs": "cache_enabled"}):
    """Documents that questions are generated from."""

    document_path: list[str] = Field(default_factory=list, description="Files to read.")
    languages: list[str] = Field(default_factory=lambda: ["eng"], description="Languages of the documents.")
    chunk_size: Positive = Field(default=5120, description="Characters per piece.")
    split_by: str = Field(default="sentence", description="Where pieces may end.")
    cache_enabled: bool = Field(default=True, description="Keep what was read for the next run.")


class QueryReader(Section):
    """Example questions that show the generator what is wanted."""

    type: Literal["jsonl_dataset_file", "huggingface_dat_repo", "env_service"] = Field(
        default="jsonl_dataset_file", description="Reader of the examples."
    )
    jsonl_dataset_file: JsonlDataset = Field(default_factory=JsonlDataset, description="Their files.")
    huggingface_dat_repo: HuggingFaceDataset = Field(
        default_factory=HuggingFaceDataset, description="Their dataset."
    )
    env_service: EnvService = Field(default_factory=EnvService, description="Their environment service.")


class SimilarityParams(
    Section,
    but={"name or output folder of the run": "db_path", "address or key of a service": "api_key base_url"},
):
    """How near-duplicates among generated questions are found."""

    similarity_threshold: Fraction = Field(
        default=0.8, description="From this similarity on, a question is dropped."
    )
    db_path: str = Field(default="./.similarity_db", description="Folder of the embeddings.")
    model: str = Field(default="text-embedding-v4", description="Embedding model.")
    api_key: str | None = Field(
        default=None,
        description="Key of the embedding service; better left null and given in the environment.",
    )
    base_url: str = Field(
        default="https://dashscope.aliyuncs.com/compatible-mode/v1",
        description="Address of the embedding service.",
    )


class Deduplication(Section):
    """Removal of near-duplicates among generated questions."""

    enabled: bool = Field(default=True, description="Remove near-duplicates.")
    params: SimilarityParams = Field(default_factory=SimilarityParams, description="How they are found.")


class GeneratorSampling(Section):
    """How the question-writing model is sampled."""

    temperature: float = Field(default=0.0, ge=0, description="Sampling temperature.")


class DataGeneration(Section, but={"how the training runs": "num_workers"}):
    """Questions written by a language model from documents and examples."""

    document_reader: DocumentReader = Field(default_factory=DocumentReader, description="The documents.")
    query_reader: QueryReader = Field(default_factory=QueryReader, description="The examples.")
    task_num: Positive = Field(default=10, description="Questions to write.")
    llm_model: str = Field(default="qwen-long", description="Model that writes them.")
    llm_response_length: Positive = Field(default=8192, description="Most tokens of its reply.")
    num_workers: Positive = Field(default=32, description="Requests at the same time.")
    sampling_params: GeneratorSampling = Field(
        default_factory=GeneratorSampling, description="How that model is sampled."
    )
    deduplication_filter: Deduplication = Field(
        default_factory=Deduplication, description="Removal of near-duplicates."
    )


class BuiltinTasks(Section):
    """Questions with one right answer that are made up on the spot."""

    name: Literal["sort_digits", "reverse_digits", "even_digits"] = Field(
        default="sort_digits", description="What is asked about the digits of the question."
    )
    digits: Positive = Field(default=5, description="Digits per question.")
    num_validation_tasks: Positive = Field(default=256, description="Questions kept for validation only.")
    split_seed: NotNegative = Field(default=0, description="Seed of the split into training and validation.")


class TaskReader(Section, concerns="data"):
    """Where the tasks come from."""

    type: Literal[
        "huggingface_dat_repo",
        "jsonl_dataset_file",
        "builtin",
        "env_service",
        "data_generation",
        "random_dummy",
        "tracing",
        "deep_finance",
    ] = Field(default="huggingface_dat_repo", description="Which of the readers below is used.")
    jsonl_dataset_file: JsonlDataset = Field(
        default_factory=JsonlDataset, description="Reader of JSON-lines files."
    )
    huggingface_dat_repo: HuggingFaceDataset = Field(
        default_factory=HuggingFaceDataset, description="Reader of Hugging Face datasets."
    )
    builtin: BuiltinTasks = Field(default_factory=BuiltinTasks, description="Reader of built-in toy tasks.")
    env_service: EnvService = Field(
        default_factory=EnvService, description="Reader of an environment service."
    )
    data_generation: DataGeneration = Field(
        default_factory=DataGeneration, description="Generator of tasks from documents."
    )


class RubricsGrader(Section):
    """A language model that grades by rubrics it derived from examples."""

    model_name: str = Field(default="qwen-max", description="Model that grades.")
    grader_mode: Literal["pointwise", "listwise"] = Field(
        default="pointwise", description="Grade answers one by one, or rank a group."
    )
    language: str = Field(default="en", description="Language of the rubrics.")
    query_specific_generate_number: Positive = Field(default=1, description="Rubrics derived per example.")
    enable_categorization: bool = Field(default=False, description="Merge rubrics into categories.")
    categories_number: Positive = Field(default=5, description="How many categories.")
    grader_name: str = Field(default="auto_grader", description="Name of the grader in the logs.")
    query_field: str = Field(default="main_query", description="Field of an example that holds the question.")
    answer_field: str = Field(default="final_answer", description="Field that holds the answer to grade.")
    reference_field: str = Field(default="answer", description="Field that holds the reference answer.")
    custom_evaluation_prompt: dict[str, Any] | str | None = Field(
        default=None, description="Grading prompt of your own."
    )
    input_data_type: str = Field(default="jsonl_dataset_file", description="Reader of the examples.")
    jsonl_dataset_file: JsonlDataset = Field(default_factory=JsonlDataset, description="Their files.")
    min_score: float = Field(default=0, description="Lowest grade.")
    max_score: float = Field(default=1, description="Highest grade.")


class TaskJudge(Section, concerns="reward", but={"code that would be loaded": "judge_protocol"}):
    """How an answer becomes a reward."""

    judge_type: Literal["customized_protocol", "rubrics_auto_grader", "exact_match"] = Field(
        default="customized_protocol",
        description="`exact_match`: 1 if the answer equals the task's reference, else 0; "
        "`customized_protocol`: the class named by `judge_protocol`. Unset: `exact_match` with the readers "
        "builtin and jsonl_dataset_file unless `judge_protocol` is set.",
    )
    judge_protocol: str = Field(
        default="ajet.task_judge.env_service_as_judge->EnvServiceJudge",
        description="Class with `compute_reward(task, output)`: `module.path->Class` or `file.py->Class`.",
    )
    alien_llm_model: str = Field(
        default="qwen3-235b-a22b-instruct-2507", description="Outside model a judge may ask for its opinion."
    )
    alien_llm_response_length: Positive = Field(default=512, description="Most tokens of that model's reply.")
    rubrics_auto_grader: RubricsGrader = Field(
        default_factory=RubricsGrader, description="Settings of the rubrics grader."
    )
