// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/loops/schedule.h"

#include <array>

#include <fmt/format.h>

namespace sinter::codegen {

namespace {

template <class... Kinds>
std::array<ScheduleKind, sizeof...(Kinds)> one_of_each(const std::variant<Kinds...>*) {
  return {Kinds{}...};
}

const auto& all_kinds() {
  static const auto all = one_of_each(static_cast<const ScheduleKind*>(nullptr));
  return all;
}

std::string_view name_of(const ScheduleKind& kind) {
  return std::visit([](const auto& own) { return std::string_view(own.kName); }, kind);
}

template <class Kind>
std::string words_of(const Kind& own) {
  std::string text;
  const auto write = [&](const auto& word) {
    const auto value = own.*word.member;
    if (value == Kind{}.*word.member) return;
    text += fmt::format(" {}", word.key);
    if constexpr (!std::is_same_v<decltype(value), const bool>) text += fmt::format("={}", value);
  };
  std::apply([&](const auto&... words) { (write(words), ...); }, Kind::kWords);
  return text;
}
std::string words_of(const TileTranspose& own) {
  return fmt::format(" tile={}x{}", own.width, own.height);
}

template <class Kind>
bool read_word(Kind& own, std::string_view key, int number, int) {
  const auto read = [&](const auto& word) {
    if (!word.asked || key != word.key) return false;
    if constexpr (std::is_same_v<decltype(own.*word.member), bool&>)
      own.*word.member = true;
    else
      own.*word.member = number;
    return true;
  };
  return std::apply([&](const auto&... words) { return (read(words) || ...); }, Kind::kWords);
}
bool read_word(TileTranspose& own, std::string_view key, int first, int second) {
  if (key == "vector") own.load_vector = second;
  if (key == "tile") own.width = first, own.height = second;
  return key == "tile";
}

}  // namespace

std::string Schedule::to_string() const {
  const auto* tiles = std::get_if<TileTranspose>(&kind);
  return fmt::format("{} vector={}{} {} threads={}x{}{}", name_of(kind), vector,
                     tiles != nullptr ? fmt::format("x{}", tiles->load_vector) : "",
                     looped() ? std::string("looped") : fmt::format("unroll={}", unroll), threads_x,
                     threads_y, std::visit([](const auto& own) { return words_of(own); }, kind));
}

bool Schedule::read(std::string_view key, int first, int second) {
  const auto read_own = [&](auto& own) { return read_word(own, key, first, second); };
  if (std::visit(read_own, kind)) return true;
  if (key == "vector")
    vector = first;
  else if (key == "unroll")
    unroll = first;
  else if (key == "threads")
    threads_x = first, threads_y = second;
  else
    return false;
  return true;
}

const ReductionParameters& Schedule::reduction() const {
  static const ReductionParameters usual;
  return std::visit(
      [](const auto& own) -> const ReductionParameters& {
        if constexpr (std::is_base_of_v<ReductionParameters, std::decay_t<decltype(own)>>)
          return own;
        else
          return usual;
      },
      kind);
}

const RowParameters& Schedule::row() const {
  static const RowParameters usual;
  return is<RowParameters>() ? as<RowParameters>() : usual;
}

std::vector<std::string_view> schedule_names() {
  std::vector<std::string_view> names;
  for (const ScheduleKind& kind : all_kinds()) names.push_back(name_of(kind));
  return names;
}

std::optional<ScheduleKind> schedule_kind(std::string_view name) {
  for (const ScheduleKind& kind : all_kinds())
    if (name_of(kind) == name) return kind;
  return std::nullopt;
}

}  // namespace sinter::codegen
