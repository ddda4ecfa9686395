// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/help/completion.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace sinter::tools {
namespace {

/// Quotes text for a shell.
std::string quoted(const std::string& text, const char* quote = "'\\''") {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? quote : std::string(1, c);
  return result + "'";
}

/// The first clause of the help, for a list.
std::string brief(const std::string& help) {
  constexpr std::size_t kMost = 60;
  std::size_t end = help.size();
  for (const char* mark : {". ", "; ", ": ", " ("}) end = std::min(end, help.find(mark));
  std::string text = help.substr(0, end);
  if (text.size() > kMost) text = text.substr(0, text.rfind(' ', kMost));
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

/// Splits "-o --output" into words.
std::vector<std::string> flags_of(const OptionHelp& option) {
  std::vector<std::string> flags;
  for (std::size_t start = 0; start <= option.names.size();) {
    const std::size_t comma = std::min(option.names.find(',', start), option.names.size());
    flags.push_back(option.names.substr(start, comma - start));
    start = comma + 1;
  }
  return flags;
}

std::vector<OptionHelp> options_of(const VerbHelp& verb, const VerbHelp& general) {
  std::vector<OptionHelp> all;
  for (const VerbHelp* each : {&verb, &general})
    for (const OptionHelp& option : each->options)
      if (!option.positional) all.push_back(option);
  return all;
}

bool takes_value(const OptionHelp& option) {
  return !option.optional_value && (!option.type.empty() || !option.values.empty());
}

/// Positional words after a verb: its argument's values, or topics and verbs.
std::vector<std::string> words_of(const VerbHelp& verb, std::span<const VerbHelp> verbs,
                                  std::span<const std::string> topics) {
  std::vector<std::string> words;
  for (const OptionHelp& option : verb.options)
    if (option.positional) words.insert(words.end(), option.values.begin(), option.values.end());
  if (verb.name != "help") return words;
  words.assign(topics.begin(), topics.end());
  for (const VerbHelp& each : verbs) words.push_back(each.name);
  return words;
}

std::string names_of(std::span<const VerbHelp> verbs) {
  std::vector<std::string> names;
  for (const VerbHelp& verb : verbs) names.push_back(verb.name);
  return fmt::format("{}", fmt::join(names, " "));
}

std::string bash(const VerbHelp& general, std::span<const VerbHelp> verbs,
                 std::span<const std::string> topics) {
  std::string options, values, words;
  for (const VerbHelp& verb : verbs) {
    std::vector<std::string> flags, taking;
    for (const OptionHelp& option : options_of(verb, general)) {
      const auto names = flags_of(option);
      flags.insert(flags.end(), names.begin(), names.end());
      if (takes_value(option) && option.values.empty())
        taking.insert(taking.end(), names.begin(), names.end());
      if (!option.values.empty())
        for (const std::string& name : names)
          values += fmt::format("    {}:{}) words='{}' ;;\n", verb.name, name,
                                fmt::join(option.values, " "));
    }
    if (!taking.empty()) {
      std::string patterns;
      for (const std::string& name : taking)
        patterns += fmt::format("{}{}:{}", patterns.empty() ? "" : "|", verb.name, name);
      values += fmt::format("    {}) kind=file ;;\n", patterns);
    }
    options += fmt::format("    {}) words='{}' ;;\n", verb.name, fmt::join(flags, " "));
    if (const auto own = words_of(verb, verbs, topics); !own.empty())
      words += fmt::format("    {}) words='{}' ;;\n", verb.name, fmt::join(own, " "));
  }
  std::vector<std::string> everywhere;
  for (const OptionHelp& option : general.options)
    for (const std::string& name : flags_of(option)) everywhere.push_back(name);
  return fmt::format(R"sh(# bash completion of `sinter`: eval "$(sinter completion bash)"
_sinter() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} verb= each words= kind=
  # "--math=pre" comes as three words.
  if [[ $word == = ]]; then word=; elif [[ $before == = ]]; then before=${{COMP_WORDS[COMP_CWORD-2]}}; fi
  for each in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    if [[ $each != -* ]]; then verb=$each; break; fi
  done
  if [[ -z $verb ]]; then
    words='{}'
    if [[ $word == -* ]]; then words='{}'; fi
    COMPREPLY=($(compgen -W "$words" -- "$word"))
    return
  fi
  case $verb:$before in
{}    *) ;;
  esac
  if [[ -z $words$kind ]]; then
    if [[ $word == -* ]]; then
      case $verb in
{}      esac
    else
      case $verb in
{}      esac
    fi
  fi
  if [[ -n $words ]]; then
    COMPREPLY=($(compgen -W "$words" -- "$word"))
  else
    COMPREPLY=($(compgen -f -- "$word"))
    compopt -o filenames 2>/dev/null
  fi
}}
complete -F _sinter sinter
)sh",
                     names_of(verbs), fmt::join(everywhere, " "), values, options, words);
}

/// Escapes a description for a zsh specification, where brackets and colons are special.
std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

std::string zsh(const VerbHelp& general, std::span<const VerbHelp> verbs,
                std::span<const std::string> topics) {
  std::string list, cases;
  for (const VerbHelp& verb : verbs) {
    list += fmt::format("    {}\n", quoted(verb.name + ":" + escaped(brief(verb.description))));
    cases += fmt::format("    {})\n      _arguments \\\n", verb.name);
    for (const OptionHelp& option : options_of(verb, general)) {
      std::string value;
      if (takes_value(option) || option.optional_value) {
        const std::string type = escaped(option.type.empty() ? "value" : option.type);
        value = option.values.empty()
                    ? fmt::format(":{}:_files", type)
                    : fmt::format(":{}:({})", type, fmt::join(option.values, " "));
        if (option.optional_value) value.insert(0, 1, ':');
      }
      for (const std::string& name : flags_of(option)) {
        const char* form = value.empty()            ? ""
                           : option.optional_value  ? "=-"
                           : name.starts_with("--") ? "="
                                                    : "";
        cases += fmt::format("        {} \\\n",
                             quoted(fmt::format("{}{}{}[{}]{}", option.repeated ? "*" : "", name,
                                                form, escaped(brief(option.help)), value)));
      }
    }
    const auto words = words_of(verb, verbs, topics);
    cases += words.empty() ? "        '*:file:_files'\n"
                           : fmt::format("        {}\n",
                                         quoted(fmt::format("*:word:({})", fmt::join(words, " "))));
    cases += "      ;;\n";
  }
  return fmt::format(R"sh(#compdef sinter
# zsh completion of `sinter`: eval "$(sinter completion zsh)", or this as _sinter in a folder of $fpath
_sinter() {{
  local -a verbs
  verbs=(
{}  )
  if (( CURRENT == 2 )); then
    _describe verb verbs
    return
  fi
  local verb=$words[2]
  shift words
  (( CURRENT-- ))
  case $verb in
{}  esac
}}
if [[ $funcstack[1] == _sinter ]]; then _sinter "$@"; else compdef _sinter sinter; fi
)sh",
                     list, cases);
}

std::string fish(const VerbHelp& general, std::span<const VerbHelp> verbs,
                 std::span<const std::string> topics) {
  const auto text = [](const std::string& each) { return quoted(each, "\\'"); };
  const auto names_of_option = [&](const OptionHelp& option) {
    std::string names;
    for (const std::string& name : flags_of(option))
      names += name.starts_with("--") ? fmt::format(" -l {}", name.substr(2))
                                      : fmt::format(" -s {}", name.substr(1));
    return names;
  };
  std::string lines = "# fish completion of `sinter`: sinter completion fish | source\n";
  const std::string all = names_of(verbs);
  for (const VerbHelp& verb : verbs)
    lines +=
        fmt::format("complete -c sinter -f -n 'not __fish_seen_subcommand_from {}' -a {} -d {}\n",
                    all, verb.name, text(brief(verb.description)));
  for (const VerbHelp& verb : verbs) {
    const std::string when = fmt::format("-n '__fish_seen_subcommand_from {}'", verb.name);
    for (const OptionHelp& option : options_of(verb, general)) {
      std::string value;
      if (!option.values.empty())
        value = fmt::format(" -x -a {}", text(fmt::format("{}", fmt::join(option.values, " "))));
      else if (takes_value(option))
        value = " -r -F";
      lines += fmt::format("complete -c sinter {}{}{} -d {}\n", when, names_of_option(option),
                           value, text(brief(option.help)));
    }
    if (const auto words = words_of(verb, verbs, topics); !words.empty())
      lines += fmt::format("complete -c sinter {} -f -a {}\n", when,
                           text(fmt::format("{}", fmt::join(words, " "))));
  }
  return lines;
}

}  // namespace

const std::vector<std::string>& shells() {
  static const std::vector<std::string> all = {"bash", "zsh", "fish"};
  return all;
}

std::string completion_for(const std::string& shell, const VerbHelp& general,
                           std::span<const VerbHelp> verbs, std::span<const std::string> topics) {
  if (shell == "zsh") return zsh(general, verbs, topics);
  return shell == "fish" ? fish(general, verbs, topics) : bash(general, verbs, topics);
}

}  // namespace sinter::tools
