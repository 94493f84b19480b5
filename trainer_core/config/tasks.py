"""`ajet.task_reader` and `ajet.task_judge`: where questions come from and how answers are rewarded."""

from typing import Any, Literal

from pydantic import Field, model_validator

from trainer_core.config.section import Fraction, NotNegative, OpenMapping, Positive, Section, key, section

ReaderType = Literal[
    "huggingface_dat_repo", "jsonl_dataset_file", "builtin", "env_service", "data_generation", "random_dummy",
    "tracing", "deep_finance", "verifiers", "openenv"]  # fmt: skip
JudgeType = Literal[
    "customized_protocol", "exact_match", "boxed", "numeric", "regex", "countdown", "environment", "pairwise",
    "rubrics_auto_grader"]  # fmt: skip
ToyName = Literal["sort_digits", "reverse_digits", "even_digits", "arithmetic", "countdown"]


class JsonlFile(Section):
    """One file with one JSON object per line."""

    file_path: str | None = key(None, "The file, seen from the working directory.")


class JsonlDataset(Section):
    """Questions in files of one JSON object per line."""

    training: JsonlFile = section(JsonlFile, "Questions to train on.")
    validation: JsonlFile = section(JsonlFile, "Questions never trained on.")


class EnvService(Section, but={"address or key of a service": "env_url"}):
    """Questions and environments served by a running environment service."""

    env_type: str = key("appworld", "Kind of environment asked for.")
    env_url: str = key("http://127.0.0.1:8080", "Address of the service.")
    env_action_preference: Literal["code", "text", "box"] = key("code", "Form of the agent's actions.")
    training_split: str = key("train", "Split to train on.")
    validation_split: str = key("dev", "Split to validate on.")


class OpenEnv(Section, but={"address or key of a service": "base_url"}):
    """An environment of a running OpenEnv server; a task is a seed that it is reset with."""

    base_url: str = key("http://127.0.0.1:8000", "Address of the server.")
    num_training_tasks: Positive = key(1000, "Seeds to train on, after those for validation.")
    num_validation_tasks: Positive = key(64, "Seeds to validate on: 0, 1, …")
    reset: OpenMapping = section(dict, "Further arguments of each reset; stronger than the seed.")


class HuggingFaceDataset(Section, but={"address or key of a service": "http_proxy_address"}):
    """Questions of a Hugging Face dataset."""

    dataset_path: str = key("gsm8k", "Name on the hub, or a local folder or data file.", min_length=1)
    dataset_name: str | None = key(None, "Configuration of the dataset, such as `main`.")
    training_split: str = key("train", "Split to train on.")
    validation_split: str = key("validation", "Split to validate on.")
    http_proxy_address: str | None = key(None, "Proxy used for the download.")


class DocumentReader(Section, but={"how the training runs": "cache_enabled"}):
    """Documents that questions are generated from."""

    document_path: list[str] = section(list, "Files: text, PDF, or .jsonl with `text`.")
    languages: list[str] = section(lambda: ["eng"], "Languages of the documents.")
    chunk_size: Positive = key(5120, "Characters per piece.")
    split_by: Literal["sentence", "paragraph", "line", "character"] = key("sentence", "Where pieces end.")
    cache_enabled: bool = key(True, "Keep what was read for the next run.")


class QueryReader(Section):
    """Example questions that show the generator what is wanted."""

    type: ReaderType = key("jsonl_dataset_file", "Their reader: jsonl_dataset_file or huggingface_dat_repo.")
    jsonl_dataset_file: JsonlDataset = section(JsonlDataset, "Their files.")
    huggingface_dat_repo: HuggingFaceDataset = section(HuggingFaceDataset, "Their dataset.")
    env_service: EnvService = section(EnvService, "Their environment service.")


class SimilarityParams(
    Section,
    but={"name or output folder of the run": "db_path", "address or key of a service": "api_key base_url"},
):
    """How near-duplicates among generated questions are found."""

    similarity_threshold: Fraction = key(0.8, "From this similarity on, a question is dropped.")
    db_path: str = key("./.similarity_db", "Folder of the embeddings.")
    model: str = key("text-embedding-v4", "Embedding model.")
    api_key: str | None = key(None, "Key of the embedding service.")
    base_url: str = key("https://dashscope.aliyuncs.com/compatible-mode/v1", "Address. Unset: `llm_model`'s.")


class Deduplication(Section):
    """Removal of near-duplicates among generated questions."""

    enabled: bool = key(True, "Remove near-duplicates.")
    params: SimilarityParams = section(SimilarityParams, "How they are found.")


class GeneratorSampling(Section):
    """How the question-writing model is sampled."""

    temperature: float = key(0.0, "Sampling temperature.", ge=0)


class DataGeneration(Section, but={"how the training runs": "num_workers"}):
    """Questions written by a language model from documents and examples."""

    document_reader: DocumentReader = section(DocumentReader, "The documents.")
    query_reader: QueryReader = section(QueryReader, "The examples.")
    task_num: Positive = key(10, "Questions to write from documents, and from examples.")
    llm_model: str = key("qwen-long", "Model that writes them.")
    llm_response_length: Positive = key(8192, "Most tokens of its reply.")
    num_workers: Positive = key(32, "Requests at the same time.")
    sampling_params: GeneratorSampling = section(GeneratorSampling, "How that model is sampled.")
    deduplication_filter: Deduplication = section(Deduplication, "Removal of near-duplicates.")


class BuiltinTasks(Section):
    """Questions with one right answer that are made up on the spot."""

    name: ToyName = key("sort_digits", "What is asked about the digits of the question.")
    digits: int = key(5, "Digits per question.", gt=0, le=18)
    num_validation_tasks: Positive = key(256, "Questions kept for validation only.")
    split_seed: NotNegative = key(0, "Seed of the split into training and validation.")


class VerifiersEnvironment(Section):
    """An environment of verifiers."""

    package: str = Field(
        description="The task set or environment, by the name it is installed under.", min_length=1
    )
    python: str = key("python", "The interpreter that has it.")
    arguments: OpenMapping = section(dict, "Its own; of `verifiers.v1` those of `env`.")
    training_arguments: OpenMapping = section(dict, "Stronger than `arguments`, for training.")
    validation_arguments: OpenMapping = section(dict, "Stronger than `arguments`, for validation.")
    num_training_tasks: Positive | None = key(None, "The first so many. null: all.")
    num_validation_tasks: Positive = key(64, "At most.")


class TaskReader(Section, concerns="data"):
    """Where the tasks come from."""

    type: ReaderType = key(
        "huggingface_dat_repo", "Which reader. `tracing`: conversations in `jsonl_dataset_file.training`."
    )
    jsonl_dataset_file: JsonlDataset = section(JsonlDataset, "Reader of JSON-lines files.")
    huggingface_dat_repo: HuggingFaceDataset = section(HuggingFaceDataset, "Reader of Hugging Face datasets.")
    builtin: BuiltinTasks = section(BuiltinTasks, "Reader of built-in toy tasks.")
    env_service: EnvService = section(EnvService, "Reader of an environment service.")
    openenv: OpenEnv = section(OpenEnv, "Reader of an OpenEnv server.")
    data_generation: DataGeneration = section(DataGeneration, "Generator of tasks from documents.")
    environments: list[VerifiersEnvironment] = section(
        list, "Of `verifiers`: package, python, arguments, {training,validation}_arguments, num_…_tasks."
    )


class RubricsGrader(Section):
    """A language model that grades by rubrics it derived from examples."""

    model_name: str = key("qwen-max", "Model that grades.")
    grader_mode: Literal["pointwise", "listwise"] = key("pointwise", "One by one, or ranked.")
    language: str = key("en", "Language of the rubrics.")
    query_specific_generate_number: Positive = key(1, "Rubrics derived per example.")
    enable_categorization: bool = key(False, "Merge rubrics into categories.")
    categories_number: Positive = key(5, "How many categories.")
    grader_name: str = key("auto_grader", "Name of the grader in the logs.")
    query_field: str = key("main_query", "Field of an example that holds the question.")
    answer_field: str = key("final_answer", "Field that holds the answer to grade.")
    reference_field: str = key("answer", "Field that holds the reference answer.")
    custom_evaluation_prompt: dict[str, Any] | str | None = key(None, "Grading prompt of your own.")
    input_data_type: str = key("jsonl_dataset_file", "Reader of the examples.")
    jsonl_dataset_file: JsonlDataset = section(JsonlDataset, "Their files.")
    min_score: float = key(0, "Lowest grade.")
    max_score: float = key(1, "Highest grade.")


class TaskJudge(Section, concerns="reward", but={"code that would be loaded": "judge_protocol"}):
    """How an answer becomes a reward."""

    judge_type: JudgeType = key(
        "customized_protocol",
        "`exact_match`, `boxed`, `numeric`, `regex`, `countdown`: 1 if answer and reference agree so; "
        "`environment`: the workflow's reward; `pairwise`, `rubrics_auto_grader`: an outside model judges; "
        "`customized_protocol`: the class named by `judge_protocol`. Unset: the workflow's reward, else "
        "`exact_match` (`countdown` for such tasks) where tasks are made up, traced or read from files.",
    )
    judge_protocol: str = key(
        "ajet.task_judge.env_service_as_judge->EnvServiceJudge",
        "Class with `compute_reward(task, output)`: `module.path->Class` or `file.py->Class`.",
    )
    pattern: str | None = key(None, "Of `regex`, in RE2's syntax. null: the task's answer is the pattern.")
    tolerance: float = key(1e-6, "Of `numeric`: largest relative difference.", ge=0)
    criteria: str = key("It is correct, complete and clear.", "Of `pairwise`: what makes an answer better.")
    alien_llm_model: str = key("qwen3-235b-a22b-instruct-2507", "Outside model a judge may ask.")
    alien_llm_response_length: Positive = key(512, "Most tokens of that model's reply.")
    rubrics_auto_grader: RubricsGrader = section(RubricsGrader, "Settings of the rubrics grader.")

    @model_validator(mode="before")
    @classmethod
    def _without_protocol(cls, given: Any) -> Any:
        """`judge_protocol: null`, as in AgentJet's configs of a swarm, is the same as none."""
        is_null = isinstance(given, dict) and given.get("judge_protocol", "") is None
        return {name: each for name, each in given.items() if name != "judge_protocol"} if is_null else given
