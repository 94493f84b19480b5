"""How the rules object to a request: `BadRequest`, and how pydantic's objections become one."""

import re
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
Name = Annotated[str, Field(pattern=rf"^{NAME.pattern}$")]


class BadRequest(Exception):  # noqa: N818  (the protocols' own word)
    """What the real server would answer: a status and the message of its error body."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


class Part(BaseModel):
    """A part of a request: nothing besides its fields, nothing converted."""

    model_config = ConfigDict(extra="forbid", strict=True)


Body = TypeVar("Body", bound=Part)


def require(holds: Any, message: str, status: int = 400) -> None:
    """Raise BadRequest unless `holds`."""
    if not holds:
        raise BadRequest(message, status)


def parsed(kind: type[Body], body: Any) -> Body:
    """The request, typed. Raises BadRequest with every objection and its place."""
    try:
        return kind.model_validate(body)
    except ValidationError as error:
        found = error.errors(include_url=False)
        places = (".".join(map(str, each["loc"])) for each in found)
        told = (f"{place}: {each['msg']}" for place, each in zip(places, found, strict=True))
        raise BadRequest("; ".join(told)) from error
