// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/options/option_values.h"

#include <charconv>

#include "runtime/format_error.h"
#include "tools/compiler/options/entries.h"
#include "tools/compiler/options/paging.h"
#include "tools/compiler/options/weights.h"

namespace sinter::tools {
namespace {

using Texts = std::vector<std::string>;

template <typename T>
T number_of(const OptionRow& row, std::string_view text, const char* what) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    throw usage_error("{} is '{}': it takes {}", row.name(), text, what);
  return value;
}

/// The words for true and false.
std::pair<std::string_view, std::string_view> words_of(const OptionRow& row) {
  if (row.values.empty()) return {"on", "off"};
  const std::size_t bar = row.values.find('|');
  return {row.values.substr(0, bar), row.values.substr(bar + 1)};
}

void read(const OptionRow& row, std::string_view text, bool& value) {
  const auto [on, off] = words_of(row);
  if (text != on && text != off)
    throw usage_error("{} is '{}': it takes {} or {}", row.name(), text, on, off);
  value = text == on;
}
void read(const OptionRow& row, std::string_view text, int& value) {
  value = number_of<int>(row, text, "a whole number");
}
void read(const OptionRow& row, std::string_view text, double& value) {
  value = number_of<double>(row, text, "a number");
}
void read(const OptionRow& row, std::string_view text, std::uint64_t& bytes) {
  with_context(std::string(row.name()), [&] { bytes = parse_bytes(text); });
}
void read(const OptionRow&, std::string_view text, std::string& value) { value = text; }
void read(const OptionRow&, std::string_view text, Texts& values) { values.emplace_back(text); }
/// A folder, or "none".
void read(const OptionRow&, std::string_view text, std::optional<std::string>& folder) {
  folder = text == "none" ? "" : text;
}
/// An exponent; not set: the best of several.
void read(const OptionRow& row, std::string_view text, std::optional<double>& exponent) {
  exponent.reset();
  if (text == "off") exponent = 0;
  if (text != "off" && text != "auto")
    exponent = number_of<double>(row, text, "auto, off, or an exponent from 0 to 1");
}
void read(const OptionRow&, std::string_view text, Precision& value) {
  value = parse_precision(text);
}
void read(const OptionRow&, std::string_view text, AttentionPrecision& value) {
  value = parse_attention_precision(text);
}
void read(const OptionRow&, std::string_view text, CachePrecision& value) {
  value = parse_cache_precision(text);
}
void read(const OptionRow&, std::string_view text, ActivationScales& value) {
  value = parse_activation_scales(text);
}
void read(const OptionRow&, std::string_view text, WeightOptions& weights) {
  weights = parse_weights(text);
}
void read(const OptionRow&, std::string_view text, DimRanges& dims) { parse_dim(text, dims); }
void read(const OptionRow&, std::string_view text, Bounds& bounds) { parse_bound(text, bounds); }
void read(const OptionRow&, std::string_view text, Shapes& shapes) { shapes = parse_shapes(text); }
void read(const OptionRow&, std::string_view text, ServeOptions& serve) {
  serve.find = text != "off";
  serve.paging.reset();
  if (text != "off" && text != "auto") serve.paging = parse_paging(text == "on" ? "" : text);
}
void read(const OptionRow&, std::string_view text, std::vector<EntryOptions>& entries) {
  entries.push_back(parse_entry(text));
}
void read(const OptionRow& row, std::string_view text, StateOptions& states) {
  const std::size_t equals = text.find('=');
  if (text == "none")
    states.find = false;
  else if (equals != text.npos)
    states.pairs.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  else if (text != "auto")
    throw usage_error("{}: '{}' is not INPUT=OUTPUT, auto or none", row.name(), text);
}
/// Members without a text form: tensors, libraries, options of runs.
template <typename T>
void read(const OptionRow& row, std::string_view, T&) {
  throw internal_error("{}: no text sets it", row.field);
}

Texts write(const OptionRow& row, bool value) {
  const auto [on, off] = words_of(row);
  return {std::string(value ? on : off)};
}
Texts write(const OptionRow&, const std::string& value) {
  return value.empty() ? Texts{} : Texts{value};
}
Texts write(const OptionRow&, const Texts& values) { return values; }
Texts write(const OptionRow&, const std::optional<double>& value) {
  return value ? Texts{fmt::format("{}", *value)} : Texts{};
}
template <typename T>
requires std::is_arithmetic_v<T> Texts write(const OptionRow&, const T& value) {
  return {fmt::format("{}", value)};
}
template <typename T>
requires std::is_enum_v<T> Texts write(const OptionRow&, const T& value) {
  return {std::string(to_string(value))};
}
Texts write(const OptionRow&, const WeightOptions& weights) { return {to_text(weights)}; }
Texts write(const OptionRow&, const Bounds& bounds) {
  Texts all;
  for (const auto& [name, most] : bounds) all.push_back(fmt::format("{}={}", name, most));
  return all;
}
Texts write(const OptionRow&, const ServeOptions& serve) {
  return serve.paging ? Texts{to_text(*serve.paging)} : Texts{};
}
Texts write(const OptionRow&, const std::vector<EntryOptions>& entries) {
  Texts all;
  for (const auto& entry : limits_of(entries)) all.push_back(to_text(entry));
  return all;
}
template <typename T>
requires(!std::is_arithmetic_v<T> && !std::is_enum_v<T>) Texts write(const OptionRow&, const T&) {
  return {};
}

struct Access {
  void (*read)(const OptionRow& row, std::string_view text, CompileOptions& options);
  Texts (*write)(const OptionRow& row, const CompileOptions& options);
};

#define SINTER_MEMBER(...)
#define SINTER_OPTION(type, member, ...) SINTER_PART(member, )
#define SINTER_PART(part, ...)                                                      \
  Access{[](const OptionRow& row, std::string_view text, CompileOptions& options) { \
           read(row, text, options.part);                                           \
         },                                                                         \
         [](const OptionRow& row, const CompileOptions& options) {                  \
           return write(row, options.part);                                         \
         }},
#define SINTER_COMMAND(...)                                                     \
  Access{[](const OptionRow& row, std::string_view, CompileOptions&) {          \
           throw internal_error("{} is no option of the compiler", row.name()); \
         },                                                                     \
         [](const OptionRow&, const CompileOptions&) { return Texts{}; }},
constexpr Access kAccess[] = {
#include <sinter/compile_option_rows.inc>
};

const Access& access_of(const OptionRow& row) { return kAccess[&row - option_rows().data()]; }

bool is_recorded(const OptionRow& row, bool changed, RecordedFor target) {
  switch (row.recorded) {
    case Recorded::kNever: return false;
    case Recorded::kChanged: return changed;
    case Recorded::kAlways: return true;
    case Recorded::kChangedForKernels: return changed && target.generates_kernels;
    case Recorded::kAlwaysForMath: return target.approximates_functions;
  }
  return false;
}

}  // namespace

void set_option(const OptionRow& row, std::string_view text, CompileOptions& options) {
  access_of(row).read(row, text, options);
}

std::vector<std::string> texts_of(const OptionRow& row, const CompileOptions& options) {
  return access_of(row).write(row, options);
}

std::vector<std::pair<std::string, std::string>> recorded_options(const CompileOptions& options,
                                                                  RecordedFor target) {
  const CompileOptions defaults;
  std::vector<std::pair<std::string, std::string>> all;
  for (const OptionRow& row : option_rows()) {
    if (row.recorded == Recorded::kNever) continue;
    const std::string key(row.name().substr(2));
    const Texts texts = texts_of(row, options);
    if (is_recorded(row, texts != texts_of(row, defaults), target))
      for (const std::string& text : texts) all.emplace_back(key, text);
    if (row.name() == "--calibration" && !options.weights.calibration.empty())
      all.emplace_back(key, "given tensors");
  }
  return all;
}

}  // namespace sinter::tools
