"""The API as a page: the schema rendered as HTML, without scripts or third-party resources."""

import json
import re
from html import escape
from typing import Any

_REF = "#/components/schemas/"
_LIMITS = {"maxLength": "at most {:,} characters", "maxItems": "at most {:,}"}
_LIMITS |= {"minimum": "from {}", "maximum": "to {:,}"}
Schema = dict[str, Any]


def render(schema: Schema) -> str:
    models, info = schema["components"]["schemas"], schema["info"]
    links, operations = "", ""
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            title = f"<code>{method.upper()} {escape(path)}</code>"
            link = f'<a href="#{operation["operationId"]}">{title}</a>'
            links += f"<li>{link} {escape(operation['summary'])}</li>"
            operations += _operation(title, operation, models)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{info["title"]} API</title>'
        f'<meta name="viewport" content="width=device-width"><link rel="icon" href="icon.svg">'
        f'<link rel="stylesheet" href="docs.css"></head><body><main>'
        f"<h1>{info['title']} {info['version']}: API</h1><p>{escape(info['summary'])}. "
        f'Also as an <a href="openapi.json">OpenAPI schema</a>. <a href="./">Back to the page.</a></p><ul>{links}</ul>'
        f"{operations}<h2>Messages</h2>"
        + "".join(_model(name, model) for name, model in sorted(models.items()))
        + "</main></body></html>"
    )


def _operation(title: str, operation: Schema, models: Schema) -> str:
    page = f'<h2 id="{operation["operationId"]}">{title}</h2>'
    page += f"<p>{escape(operation['summary'])}. {_text(operation.get('description', ''))}</p>"
    if "security" in operation:
        page += "<p>Needs <code>Authorization: Bearer TOKEN</code>.</p>"
    given = operation.get("parameters", ())
    rows = [(each["name"], _type(each["schema"]), each.get("description", "")) for each in given]
    page += _table(("parameter", "type", ""), rows)
    for content_type, content in operation.get("requestBody", {}).get("content", {}).items():
        page += f"<h3>Body: <code>{content_type}</code></h3><p>{_type(content['schema'])}</p>"
        page += _example(content["schema"], models)
    answers = []
    for status, answer in operation["responses"].items():
        kinds = [_type(each.get("schema", {})) for each in answer.get("content", {}).values()]
        answers.append((status, " or ".join(filter(None, kinds)), answer["description"]))
    return page + "<h3>Answers</h3>" + _table(("status", "content", ""), answers)


def _model(name: str, model: Schema) -> str:
    required = model.get("required", ())
    rows = [
        (field if field in required else f"{field} (optional)", _type(given), given.get("description", ""))
        for field, given in model.get("properties", {}).items()
    ]
    example = _example(model, {})
    return (
        f'<h3 id="{name}">{name}</h3><p>{_text(model.get("description", ""))}</p>'
        + _table(("field", "type", ""), rows)
        + (f"<details><summary>Example</summary>{example}</details>" if example else "")
    )


def _text(text: str) -> str:
    """Return a description as HTML, with its quoted parts as code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(text))


def _type(schema: Schema) -> str:
    """Describe a schema in a few words, with links to the messages."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_REF)
        return f'<a href="#{name}">{name}</a>'
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return " or ".join(_type(each) for each in schema[several])
    if "enum" in schema or "const" in schema:
        values = schema.get("enum", [schema.get("const")])
        return " or ".join(f"<code>{escape(str(each))}</code>" for each in values)
    said = [text.format(schema[name]) for name, text in _LIMITS.items() if name in schema]
    inner = f" of {_type(schema['items'])}" if "items" in schema else ""
    return escape(str(schema.get("type", ""))) + inner + (f" ({', '.join(said)})" if said else "")


def _example(schema: Schema, models: Schema) -> str:
    for each in (schema, *schema.get("anyOf", ())):
        found = models.get(each.get("$ref", "").removeprefix(_REF), each)
        if found.get("examples"):
            shown = found["examples"][0]
            text = shown if isinstance(shown, str) else json.dumps(shown, indent=2, ensure_ascii=False)
            return f"<pre>{escape(text)}</pre>"
    return ""


def _table(names: tuple[str, ...], rows: list[tuple[str, str, str]]) -> str:
    if not rows:
        return ""
    head = "".join(f"<th>{name}</th>" for name in names)
    body = "".join(
        f"<tr><td><code>{escape(str(first))}</code></td><td>{kind}</td><td>{_text(text)}</td></tr>"
        for first, kind, text in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
