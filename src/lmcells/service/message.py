"""What all messages share: frozen, nothing but their own fields, nothing converted.

Offsets count Unicode code points, as Python does.
"""

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field


def _encodable(text: str) -> str:
    """Refuse half of a surrogate pair, which JSON can write and UTF-8 cannot."""
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            raise ValueError("not Unicode text: it holds half of a surrogate pair") from None
    return text


def _whole(number: object) -> object:
    """Take 12.0 for 12, as JSON does."""
    return int(number) if isinstance(number, float) and number.is_integer() else number


Text = Annotated[str, AfterValidator(_encodable)]
Name = Annotated[str, Field(min_length=1, max_length=500, pattern=r"\S"), AfterValidator(_encodable)]
Offset = Annotated[int, Field(ge=0, le=2**53 - 1), BeforeValidator(_whole)]
Probability = Annotated[float, Field(ge=0, le=1)]


class Message(BaseModel):
    """Frozen, with no field but its own, and nothing converted that was sent as another type."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def several(example: Any, **more: Any) -> Any:
    """A JSON array, held as a tuple."""
    return Field(strict=False, examples=[[example]], **more)
