// SPDX-License-Identifier: Apache-2.0
// Calls that are written as Python has them.
#include <algorithm>
#include <charconv>

#include "tools/serve/tool_calls/read_calls.h"

namespace sinter::tools {
namespace {

using nlohmann::ordered_json;
using State = ToolBlock::State;

/// Reads literals and calls of a text, of which more may come.
class PythonReader {
 public:
  explicit PythonReader(std::string_view text) : text_(text) {}

  std::size_t place() const { return at_; }
  bool is_at_end() const { return at_ >= text_.size(); }
  /// Why the last read failed: the text ended too early.
  bool has_ended() const { return has_ended_; }

  void skip_space() { at_ += space_of(text_.substr(at_)); }
  bool take(char c) {
    skip_space();
    if (is_at_end()) return fail_at_end();
    if (text_[at_] != c) return false;
    ++at_;
    return true;
  }

  /// `f(a=1)`; also within `print(..)`.
  bool call(ToolCall& call, bool may_print = true) {
    std::string name;
    if (!dotted_name(name) || !take('(')) return false;
    if (name == "print" && may_print) return this->call(call, false) && take(')');
    ordered_json arguments = ordered_json::object();
    bool is_first = true;
    while (!take(')')) {
      if (has_ended_) return false;
      if (!is_first && !take(',')) return false;
      if (!is_first && take(')')) break;
      std::string key;
      ordered_json value;
      if (!dotted_name(key) || !take('=') || !this->value(value, 0)) return false;
      arguments[key] = std::move(value);
      is_first = false;
    }
    if (has_ended_) return false;
    call = {std::move(name),
            arguments.dump(-1, ' ', false, ordered_json::error_handler_t::replace)};
    return true;
  }

 private:
  static constexpr int kMostDepth = 32;

  bool fail_at_end() {
    has_ended_ = true;
    return false;
  }

  static bool is_of_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  }

  bool dotted_name(std::string& name) {
    skip_space();
    const std::size_t begin = at_;
    while (!is_at_end() && (is_of_word(text_[at_]) || (text_[at_] == '.' && at_ > begin))) ++at_;
    if (is_at_end()) return fail_at_end();
    name = text_.substr(begin, at_ - begin);
    return !name.empty() && (name[0] < '0' || name[0] > '9');
  }

  bool value(ordered_json& value, int depth) {
    skip_space();
    if (is_at_end()) return fail_at_end();
    if (depth > kMostDepth) return false;
    const char c = text_[at_];
    if (c == '"' || c == '\'') return text(value);
    if (c == '[' || c == '(') return list(value, c == '[' ? ']' : ')', depth);
    if (c == '{') return dictionary(value, depth);
    if (c == '-' || c == '+' || c == '.' || (c >= '0' && c <= '9')) return number(value);
    std::string word;
    if (!dotted_name(word)) return false;
    if (word == "True" || word == "true")
      value = true;
    else if (word == "False" || word == "false")
      value = false;
    else if (word != "None" && word != "null")
      return false;
    return true;
  }

  bool list(ordered_json& value, char end, int depth) {
    ++at_;
    value = ordered_json::array();
    while (!take(end)) {
      if (has_ended_) return false;
      if (!value.empty()) {
        if (!take(',')) return false;
        if (take(end)) return true;
        if (has_ended_) return false;
      }
      if (!this->value(value.emplace_back(), depth + 1)) return false;
    }
    return true;
  }

  bool dictionary(ordered_json& value, int depth) {
    ++at_;
    value = ordered_json::object();
    while (!take('}')) {
      if (has_ended_) return false;
      if (!value.empty()) {
        if (!take(',')) return false;
        if (take('}')) return true;
        if (has_ended_) return false;
      }
      ordered_json key, one;
      if (!this->value(key, depth + 1) || !key.is_string() || !take(':') ||
          !this->value(one, depth + 1))
        return false;
      value[key.get<std::string>()] = std::move(one);
    }
    return true;
  }

  bool number(ordered_json& value) {
    std::size_t end = at_;
    while (end < text_.size() &&
           (is_of_word(text_[end]) || text_[end] == '.' || text_[end] == '+' || text_[end] == '-'))
      ++end;
    if (end >= text_.size()) return fail_at_end();
    std::string word(text_.substr(at_, end - at_));
    std::erase(word, '_');
    if (word.starts_with('+')) word.erase(0, 1);
    std::int64_t whole = 0;
    const char* const last = word.data() + word.size();
    if (const auto [rest, error] = std::from_chars(word.data(), last, whole);
        error == std::errc() && rest == last) {
      value = whole;
    } else {
      double real = 0;
      const auto [rest_of_real, failed] = std::from_chars(word.data(), last, real);
      if (failed != std::errc() || rest_of_real != last) return false;
      value = real;
    }
    at_ = end;
    return true;
  }

  static void put_character(std::string& text, std::uint32_t code) {
    const auto byte = [&](std::uint32_t bits) { text += static_cast<char>(bits); };
    if (code < 0x80) return byte(code);
    if (code < 0x800) {
      byte(0xC0 | code >> 6);
    } else {
      if (code < 0x10000) {
        byte(0xE0 | code >> 12);
      } else {
        byte(0xF0 | code >> 18);
        byte(0x80 | (code >> 12 & 0x3F));
      }
      byte(0x80 | (code >> 6 & 0x3F));
    }
    byte(0x80 | (code & 0x3F));
  }

  bool escape(std::string& result) {
    if (at_ + 1 >= text_.size()) return fail_at_end();
    const char c = text_[at_ + 1];
    at_ += 2;
    constexpr std::string_view kFrom = "nrtbf0\\'\"/", kTo{"\n\r\t\b\f\0\\'\"/", 10};
    if (const auto found = kFrom.find(c); found != std::string_view::npos) {
      result += kTo[found];
      return true;
    }
    const std::size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits == 0) {
      result += '\\';
      result += c;
      return true;
    }
    if (at_ + digits > text_.size()) return fail_at_end();
    std::uint32_t code = 0;
    const char* const from = text_.data() + at_;
    const auto [rest, error] = std::from_chars(from, from + digits, code, 16);
    if (error != std::errc() || rest != from + digits || code > 0x10FFFF) return false;
    at_ += digits;
    put_character(result, code);
    return true;
  }

  bool text(ordered_json& value) {
    const char quote = text_[at_];
    const std::string triple(3, quote);
    const bool is_triple = text_.substr(at_).starts_with(triple);
    const std::string_view end = is_triple ? std::string_view(triple) : text_.substr(at_, 1);
    at_ += end.size();
    std::string result;
    while (!text_.substr(at_).starts_with(end)) {
      if (is_at_end()) return fail_at_end();
      if (text_[at_] == '\\') {
        if (!escape(result)) return false;
      } else {
        result += text_[at_++];
      }
    }
    at_ += end.size();
    value = std::move(result);
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  bool has_ended_ = false;
};

/// `[f(), g()]`.
bool read_list(PythonReader& reader, std::vector<ToolCall>& calls) {
  if (!reader.take('[')) return false;
  do {
    if (!reader.call(calls.emplace_back())) return false;
  } while (reader.take(','));
  return !reader.has_ended() && reader.take(']');
}

}  // namespace

ToolBlock read_pythonic(std::string_view text, bool is_over) {
  PythonReader reader(text);
  ToolBlock block;
  if (!read_list(reader, block.calls)) {
    const bool is_open = reader.has_ended() && !is_over;
    return {is_open ? State::kOpen : State::kNone, is_open ? 0 : std::size_t{1}, {}};
  }
  block.length = reader.place();
  block.state = State::kCalls;
  take_python_end(text, is_over, block);
  return block;
}

void take_python_end(std::string_view text, bool is_over, ToolBlock& block) {
  constexpr std::string_view kEnd = "<|python_end|>";
  if (block.state != State::kCalls) return;
  const std::string_view rest = text.substr(block.length);
  if (rest.starts_with(kEnd))
    block.length += kEnd.size();
  else if (!is_over && kEnd.starts_with(rest))
    block = {State::kOpen, 0, {}};
}

ToolBlock read_tool_code(std::string_view text, bool is_over) {
  constexpr std::string_view kEnd = "```";
  const std::size_t end = text.find(kEnd);
  if (end == std::string_view::npos) return {is_over ? State::kNone : State::kOpen, 0, {}};
  ToolBlock block{State::kCalls, end + kEnd.size(), {}};
  PythonReader reader(text.substr(0, end + 1));  // with something behind the last call
  reader.skip_space();
  if (reader.place() < end && text[reader.place()] == '[') {
    if (!read_list(reader, block.calls)) return {State::kNone, block.length, {}};
    reader.skip_space();
  } else {
    while (reader.place() < end) {
      if (!reader.call(block.calls.emplace_back())) return {State::kNone, block.length, {}};
      reader.skip_space();
    }
  }
  if (reader.place() != end || block.calls.empty()) return {State::kNone, block.length, {}};
  return block;
}

ordered_json tag_pythonic_call(const std::string& name, const ordered_json& parameters) {
  const ordered_json none = ordered_json::object();
  const auto member = [&](const char* key) -> const ordered_json& {
    return parameters.is_object() && parameters.contains(key) ? parameters[key] : none;
  };
  const ordered_json& properties = member("properties");
  const auto is_required = [&](const std::string& key) {
    const ordered_json& required = member("required");
    return required.is_array() && std::ranges::find(required, ordered_json(key)) != required.end();
  };
  std::vector<std::pair<std::string, ordered_json>> required, optional;
  if (properties.is_object())
    for (const auto& [key, given] : properties.items()) {
      ordered_json schema = given;
      for (const char* shared : {"$defs", "definitions"})
        if (schema.is_object() && !member(shared).empty()) schema[shared] = member(shared);
      const bool is_flag = schema.is_object() && schema.value("type", ordered_json()) == "boolean";
      ordered_json value =
          is_flag
              ? ordered_json{{"type", "or"}, {"elements", {tag_text("True"), tag_text("False")}}}
              : tag_schema(std::move(schema));
      (is_required(key) ? required : optional).emplace_back(key, std::move(value));
    }
  const auto argument = [](bool is_first, const auto& one) {
    return tag_sequence({tag_text((is_first ? "" : ", ") + one.first + "="), one.second});
  };
  // Optional ones from number `from` on, each there or not.
  const auto add_rest = [&](std::vector<ordered_json>& to, std::size_t from) {
    for (std::size_t i = from; i < optional.size(); ++i)
      to.push_back({{"type", "optional"}, {"content", argument(false, optional[i])}});
  };
  std::vector<ordered_json> parts = {tag_text(name + "(")};
  for (std::size_t i = 0; i < required.size(); ++i) parts.push_back(argument(i == 0, required[i]));
  if (!required.empty()) {
    add_rest(parts, 0);
  } else if (!optional.empty()) {
    std::vector<ordered_json> firsts;
    for (std::size_t i = 0; i < optional.size(); ++i) {
      std::vector<ordered_json> from = {argument(true, optional[i])};
      add_rest(from, i + 1);
      firsts.push_back(tag_sequence(std::move(from)));
    }
    parts.push_back(
        {{"type", "optional"}, {"content", {{"type", "or"}, {"elements", std::move(firsts)}}}});
  }
  parts.push_back(tag_text(")"));
  return tag_sequence(std::move(parts));
}

}  // namespace sinter::tools
