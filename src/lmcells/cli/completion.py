"""`lmcells completion`: a script that completes commands, flags and choices in bash, zsh or fish.

The script is generated from the parser, so it matches this version and does not start Python as you type.
"""

import argparse
from collections.abc import Iterator

from lmcells.cli.arguments import Command, Options

SHELLS = ("bash", "zsh", "fish")

_BASH = """\
_lmcells() {
  local word="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}" command="" words=""
  local at
  for ((at = 1; at < COMP_CWORD; at++)); do
    if [[ "${COMP_WORDS[at]}" != -* ]]; then
      if [[ -z "$command" ]]; then command="${COMP_WORDS[at]}"
      elif [[ " %(groups)s " == *" $command "* && "$command" != *" "* ]]; then command="$command ${COMP_WORDS[at]}"; fi
    fi
  done
  case "$command $previous" in
%(choices)s
  esac
  if [[ -z "$words" ]]; then
    case "$command" in
%(commands)s
    esac
    if [[ "$word" != -* && "$words" != -* ]]; then COMPREPLY=($(compgen -W "$words" -- "$word")); return; fi
    if [[ "$word" != -* ]]; then COMPREPLY=($(compgen -f -- "$word")); return; fi
  fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -o filenames -F _lmcells lmcells
"""


def _add_arguments(add: Options) -> None:
    add("shell", "the shell to write for", choices=SHELLS)


def _run(options: argparse.Namespace) -> None:
    from lmcells.cli.main import build_parser  # which imports all commands, this one too

    commands = list(_commands(build_parser(), ()))
    print(_fish_script(commands) if options.shell == "fish" else _bash_script(commands, shell=options.shell))


# The names of a command, its parser, and its subcommands with their summaries.
_Found = tuple[tuple[str, ...], argparse.ArgumentParser, dict[str, str]]


def _commands(parser: argparse.ArgumentParser, names: tuple[str, ...]) -> Iterator[_Found]:
    groups = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    inner = {each.dest: each.help or "" for group in groups for each in group._choices_actions}
    yield names, parser, inner
    for group in groups:
        for name, each in group.choices.items():
            yield from _commands(each, (*names, name))


def _flags(parser: argparse.ArgumentParser) -> list[tuple[str, argparse.Action]]:
    return [(flag, each) for each in parser._actions for flag in each.option_strings if flag.startswith("--")]


def _bash_script(commands: list[_Found], *, shell: str) -> str:
    cases, choices = [], []
    for names, parser, inner in commands:
        words = " ".join(inner or (flag for flag, _ in _flags(parser)))
        cases.append(f'      "{" ".join(names)}") words="{words}" ;;')
        choices += [
            f'    "{" ".join(names)} {flag}") words="{" ".join(map(str, each.choices))}" ;;'
            for flag, each in _flags(parser)
            if each.choices
        ]
    groups = " ".join(" ".join(names) for names, _, inner in commands if names and inner)
    script = _BASH % {"groups": groups, "commands": "\n".join(cases), "choices": "\n".join(choices)}
    start = "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n"
    return (start if shell == "zsh" else "") + script


def _fish_script(commands: list[_Found]) -> str:
    lines = ["complete -c lmcells -n '__fish_use_subcommand' -f"]
    for names, parser, inner in commands:
        seen = "; and ".join(f"__fish_seen_subcommand_from {name}" for name in names)
        if inner:
            own = " ".join(inner)
            unseen = f"not __fish_seen_subcommand_from {own}"
            for name, summary in inner.items():
                when = f"{seen}; and {unseen}" if seen else unseen
                lines.append(f"complete -c lmcells -n '{when}' -f -a {name} -d {_quoted(summary)}")
        elif names:
            for flag, each in _flags(parser):
                values = f" -x -a {_quoted(' '.join(map(str, each.choices)))}" if each.choices else ""
                takes = "" if each.nargs == 0 or values else " -r"
                described = _quoted(str(each.help or "").replace("%(default)d", str(each.default)))
                lines.append(f"complete -c lmcells -n '{seen}' -l {flag[2:]}{takes}{values} -d {described}")
    return "\n".join(lines)


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


_COMPLETION = """\
print a script for shell completion

Print a script that completes commands, flags and their choices on the command line.

examples:
  lmcells completion bash > ~/.local/share/bash-completion/completions/lmcells
  lmcells completion zsh >> ~/.zshrc
  lmcells completion fish > ~/.config/fish/completions/lmcells.fish"""
COMMANDS = {"completion": Command(_COMPLETION, _add_arguments, _run)}
