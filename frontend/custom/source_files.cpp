// SPDX-License-Identifier: Apache-2.0
#include "frontend/custom/source_files.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>

#include "frontend/model/model_file.h"
#include "runtime/format_error.h"

namespace sinter::frontend {
namespace {

namespace fs = std::filesystem;

/// Joins lines that end with a backslash.
std::string spliced(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::size_t end = i + 1 < text.size() && text[i + 1] == '\r' ? i + 2 : i + 1;
    if (text[i] == '\\' && end < text.size() && text[end] == '\n')
      i = end;
    else
      result.push_back(text[i]);
  }
  return result;
}

/// Replaces comments by spaces; line ends stay. A string ends at its line's end.
std::string without_comments(std::string_view text) {
  std::string result(text);
  const auto blank = [&](std::size_t from, std::size_t to) {
    for (; from < to; ++from)
      if (result[from] != '\n') result[from] = ' ';
  };
  for (std::size_t i = 0; i < text.size();) {
    const std::string_view rest = text.substr(i);
    if (rest.starts_with("//")) {
      const std::size_t end = std::min(text.find('\n', i), text.size());
      blank(i, end);
      i = end;
    } else if (rest.starts_with("/*")) {
      const std::size_t end = text.find("*/", i + 2);
      const std::size_t behind = end == std::string_view::npos ? text.size() : end + 2;
      blank(i, behind);
      i = behind;
    } else if (text[i] == '"' ||
               (text[i] == '\'' &&
                (i == 0 || std::isalnum(static_cast<unsigned char>(text[i - 1])) == 0))) {
      const char quote = text[i];
      for (++i; i < text.size() && text[i] != quote && text[i] != '\n'; ++i)
        if (text[i] == '\\') ++i;
      ++i;
    } else {
      ++i;
    }
  }
  return result;
}

/// The text after "#include" on a line without comments; nullopt for other lines.
std::optional<std::string_view> included_by(std::string_view line) {
  const auto skip = [&] {
    line.remove_prefix(std::min(line.find_first_not_of(" \t\v\f\r"), line.size()));
  };
  skip();
  if (line.starts_with("#"))
    line.remove_prefix(1);
  else if (line.starts_with("%:"))
    line.remove_prefix(2);
  else
    return std::nullopt;
  skip();
  for (const std::string_view word : {"include_next", "include", "import", "embed"}) {
    if (!line.starts_with(word)) continue;
    line.remove_prefix(word.size());
    skip();
    return line;
  }
  return std::nullopt;
}

class Includer {
 public:
  Includer(const std::string& definition, const std::string& label)
      : definition_(definition), label_(label) {}

  std::string expanded(std::string_view text, const std::string& name, int depth) {
    const std::string whole = spliced(text);
    if (whole.find("include") == whole.npos && whole.find("import") == whole.npos &&
        whole.find("embed") == whole.npos)
      return std::string(text);
    constexpr int kMostDepth = 32;
    if (depth > kMostDepth) fail(name, "its files include each other without end");
    if (whole.find("R\"") != whole.npos)
      fail(name, "a raw string (R\"..\") beside an #include is not supported");
    const std::string clean = without_comments(whole);
    std::string result;
    std::int64_t number = 1;
    for (std::size_t at = 0; at < whole.size(); ++number) {
      const std::size_t end = std::min(whole.find('\n', at), whole.size());
      const auto what = included_by(std::string_view(clean).substr(at, end - at));
      if (!what)
        result.append(whole, at, end - at).push_back('\n');
      else
        result += included(std::string(*what), name, number, depth);
      at = end + 1;
    }
    if ((bytes_ += result.size()) > kMostBytes) fail(name, "what it includes is more than 16 MiB");
    return result;
  }

 private:
  static constexpr std::size_t kMostBytes = std::size_t{16} << 20;

  [[noreturn]] void fail(const std::string& name, const std::string& why) const {
    throw usage_error("{}: {}: {}", label_, name, why);
  }

  std::string included(std::string operand, const std::string& by, std::int64_t line, int depth) {
    operand.erase(operand.find_last_not_of(" \t\r") + 1);
    const auto at = [&] { return fmt::format("line {}: #include {}", line, operand); };
    if (operand.size() < 3 || operand.front() != '"' || operand.find('"', 1) != operand.size() - 1)
      fail(by, at() +
                   ": only files of the definition's own folder can be included, as \"name\"; "
                   "the toolkit's headers are not there");
    const std::string name = operand.substr(1, operand.size() - 2);
    if (once_.count(name) != 0) return fmt::format("#line {} \"{}\"\n", line + 1, by);
    const std::string text = read_beside(definition_, name);
    if (text.find("#pragma once") != text.npos) once_.insert(name);
    return fmt::format("#line 1 \"{}\"\n{}\n#line {} \"{}\"\n", name,
                       expanded(text, name, depth + 1), line + 1, by);
  }

  const std::string &definition_, &label_;
  std::set<std::string> once_;
  std::size_t bytes_ = 0;
};

}  // namespace

std::string read_beside(const std::string& definition, const std::string& name) {
  std::error_code error;
  const fs::path given = fs::path(definition).parent_path();
  const fs::path folder = fs::weakly_canonical(given.empty() ? fs::path(".") : given, error);
  const fs::path path = fs::weakly_canonical((given.empty() ? fs::path(".") : given) / name, error);
  const auto [at, _] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  if (error || at != folder.end())
    throw usage_error(
        "{}: the file '{}' lies outside the folder of the definition: what a definition names must "
        "lie beside it or below",
        definition, name);
  const auto file = MappedFile::open(path.string());
  return {reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()};
}

std::string with_includes(std::string_view text, const std::string& definition,
                          const std::string& label) {
  return Includer(definition, label).expanded(text, label, 0);
}

}  // namespace sinter::frontend
