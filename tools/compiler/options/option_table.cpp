// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/options/option_table.h"

#include <algorithm>
#include <array>
#include <type_traits>

#include <sinter/compile_options.h>

namespace sinter::tools {
namespace {

template <typename T>
constexpr OptionKind kind_of() {
  if (std::is_same_v<T, bool>) return OptionKind::kSwitch;
  if (std::is_same_v<T, std::uint64_t>) return OptionKind::kBytes;
  if (std::is_integral_v<T>) return OptionKind::kInteger;
  if (std::is_same_v<T, double>) return OptionKind::kNumber;
  if (std::is_same_v<T, std::string>) return OptionKind::kText;
  if (std::is_same_v<T, std::vector<std::string>>) return OptionKind::kTexts;
  if (std::is_enum_v<T>) return OptionKind::kChoice;
  return OptionKind::kOther;
}

/// Vectors and maps whose elements are separate texts; the shapes of several inputs are one text.
template <typename T>
constexpr bool is_repeated() {
  if constexpr (std::is_same_v<T, std::string> || std::is_same_v<T, Shapes>) return false;
  return std::is_same_v<T, StateOptions> || std::is_same_v<T, DimRanges> ||
         std::is_same_v<T, Bounds> || requires(T list) {
    list.emplace_back();
  };
}

template <typename T>
constexpr OptionRow with_member(OptionRow row, std::string_view field) {
  row.field = field;
  row.kind = kind_of<T>();
  row.repeated = is_repeated<T>();
  return row;
}

constexpr OptionRow of_command(OptionRow row) {
  row.applied = false;
  return row;
}

#define SINTER_MEMBER(type, member, standard)
#define SINTER_OPTION(type, member, standard, ...) \
  with_member<type>(OptionRow{__VA_ARGS__}, #member),
#define SINTER_PART(part, ...)                                                      \
  with_member<std::remove_cvref_t<decltype(std::declval<CompileOptions&>().part)>>( \
      OptionRow{__VA_ARGS__}, #part),
#define SINTER_COMMAND(...) of_command(OptionRow{__VA_ARGS__}),
constexpr OptionRow kRows[] = {
#include <sinter/compile_option_rows.inc>
};

constexpr std::array kGroups = {
    OptionGroup::kTarget,   OptionGroup::kShapes,   OptionGroup::kModel,    OptionGroup::kWeights,
    OptionGroup::kEightBit, OptionGroup::kDecoders, OptionGroup::kKernels,  OptionGroup::kTuning,
    OptionGroup::kVerify,   OptionGroup::kPasses,   OptionGroup::kResources};

}  // namespace

std::string_view title_of(OptionGroup group) {
  switch (group) {
    case OptionGroup::kTarget: return "Target and precision";
    case OptionGroup::kShapes: return "Shapes and constants";
    case OptionGroup::kModel: return "What is compiled of the model";
    case OptionGroup::kWeights: return "Quantized weights";
    case OptionGroup::kEightBit: return "Operands of 8 bits (--precision int8, fp8)";
    case OptionGroup::kDecoders: return "Decoders and states";
    case OptionGroup::kKernels: return "Kernels";
    case OptionGroup::kTuning: return "Tuning";
    case OptionGroup::kVerify: return "Verification";
    case OptionGroup::kPasses: return "Passes";
    case OptionGroup::kResources: return "Resources";
  }
  return "";
}

std::span<const OptionGroup> option_groups() { return kGroups; }

std::string_view to_string(OptionKind kind) {
  switch (kind) {
    case OptionKind::kSwitch: return "switch";
    case OptionKind::kInteger: return "integer";
    case OptionKind::kNumber: return "number";
    case OptionKind::kText: return "text";
    case OptionKind::kTexts: return "texts";
    case OptionKind::kBytes: return "bytes";
    case OptionKind::kChoice: return "choice";
    case OptionKind::kOther: break;
  }
  return "other";
}

std::span<const OptionRow> option_rows() { return kRows; }

const OptionRow* find_option(std::string_view flag) {
  const auto* found =
      std::ranges::find_if(kRows, [&](const OptionRow& row) { return row.name() == flag; });
  return found == std::end(kRows) ? nullptr : found;
}

}  // namespace sinter::tools
