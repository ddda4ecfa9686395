// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/operators/operator_def.h"

#include <algorithm>
#include <charconv>

#include "runtime/format_error.h"

namespace sinter::plan {
namespace {

/// Removes and returns the first word of `text`; "" if there is none.
std::string_view take_word(std::string_view& text) {
  const std::string_view word = text.substr(0, text.find(' '));
  text.remove_prefix(std::min(text.size(), word.size() + 1));
  return word;
}

std::int64_t number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    throw internal_error("'{}' is no size of an operator", text);
  return value;
}

bool is_number(std::string_view word) { return word[0] >= '0' && word[0] <= '9'; }

std::int64_t value_of(std::string_view word, const OperatorSizes& sizes) {
  if (is_number(word)) return number(word);
  const std::size_t at = word.find_first_of("+/");
  const std::int64_t value = sizes[word.substr(0, at)];
  if (at == std::string_view::npos) return value;
  const std::int64_t operand = number(word.substr(at + 1));
  return word[at] == '+' ? value + operand : (value + operand - 1) / operand;
}

}  // namespace

std::optional<std::int64_t> OperatorSizes::find(std::string_view name) const {
  for (const auto& [known, value] : sizes_)
    if (known == name) return value;
  return std::nullopt;
}

std::int64_t OperatorSizes::operator[](std::string_view name) const {
  const auto value = find(name);
  if (!value) throw internal_error("an operator has no size '{}'", name);
  return *value;
}

const OperatorDef* find_operator(std::string_view name) {
  const auto all = operators();
  const auto found = std::ranges::find(all, name, &OperatorDef::name);
  return found == all.end() ? nullptr : *found;
}

std::size_t rank_of(std::string_view shape) {
  std::size_t rank = 0;
  while (!take_word(shape).empty()) ++rank;
  return rank;
}

std::pair<OperatorSizes, std::string> bind_sizes(const OperatorDef& def,
                                                 const fb::OperatorStepT& step,
                                                 std::span<const std::int64_t> values) {
  OperatorSizes sizes;
  for (const AttributeDef& attribute : def.attributes)
    for (const auto& given : step.attributes)
      if (!attribute.is_float && given->name == attribute.name)
        sizes.add(attribute.name, given->integer);
  std::string wrong;
  const auto bind = [&](const OperandDef& operand, const fb::HostTensorT& tensor) {
    std::string_view shape = operand.shape;
    for (const std::uint32_t size : tensor.shape) {
      const std::string_view word = take_word(shape);
      const bool is_new = !is_number(word) && word.find_first_of("+/") == std::string_view::npos &&
                          !sizes.find(word);
      if (is_new) sizes.add(word, values[size]);
      if (wrong.empty() && values[size] != value_of(word, sizes))
        wrong = fmt::format("its {} have {} where '{}' is {}", operand.name, values[size], word,
                            value_of(word, sizes));
    }
  };
  for (std::size_t i = 0; i < def.inputs.size(); ++i) bind(def.inputs[i], *step.inputs[i]);
  for (std::size_t i = 0; i < def.outputs.size(); ++i) bind(def.outputs[i], *step.outputs[i]);
  for (const SizeLimit& limit : def.limits)
    if (const std::int64_t size = sizes[limit.name];
        wrong.empty() && (size < limit.min || size > limit.max))
      wrong = fmt::format("its size '{}' is {}, operator '{}' takes {} to {}", limit.name, size,
                          def.name, limit.min, limit.max);
  if (wrong.empty() && def.refuse != nullptr) wrong = def.refuse(sizes);
  return {std::move(sizes), std::move(wrong)};
}

}  // namespace sinter::plan
