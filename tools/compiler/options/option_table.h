// SPDX-License-Identifier: Apache-2.0
// What there is to know of each option of compiling, as data: the rows of
// <sinter/compile_option_rows.inc>. Help, completion, the manifest, messages and Python's keywords
// are made from it; option_values.h reads and writes the values.
#pragma once

#include <span>
#include <string_view>

namespace sinter::tools {

/// Headings of --help, in this order.
enum class OptionGroup {
  kTarget,
  kShapes,
  kModel,
  kWeights,
  kEightBit,
  kDecoders,
  kKernels,
  kTuning,
  kVerify,
  kPasses,
  kResources
};
/// "Target and precision".
std::string_view title_of(OptionGroup group);
std::span<const OptionGroup> option_groups();

/// Verbs with an option: all that compile; all except compare, which itself varies the option;
/// those that handle single passes (compile and verify); compile; none (Python only). Each set of
/// options includes the previous ones.
enum class OptionVerbs { kAll, kNotCompare, kPasses, kCompile, kNone };

/// Whether a plan's manifest records the option: never; if it differs from the default; always; the
/// last two again, but only for targets with generated kernels, and with approximated functions.
enum class Recorded { kNever, kChanged, kAlways, kChangedForKernels, kAlwaysForMath };

/// Type of a value; kOther: Python represents it in its own way.
enum class OptionKind { kSwitch, kInteger, kNumber, kText, kTexts, kBytes, kChoice, kOther };
/// "switch", "integer", ..
std::string_view to_string(OptionKind kind);

struct OptionRow {
  std::string_view flag;      // "--strict", "-j,--jobs"; empty: not on the command line
  std::string_view keyword;   // Python's compile() keyword; empty: none
  std::string_view type;      // name of its value in --help; empty: a flag, or one of `values`
  std::string_view values;    // "on|off": the only valid values; for a bool the first is true
  std::string_view standard;  // the default as shown in --help
  OptionGroup group = OptionGroup::kTarget;
  OptionVerbs verbs = OptionVerbs::kAll;
  Recorded recorded = Recorded::kNever;
  bool applied = true;     // false: the verb itself reads it, not set_option
  std::string_view field;  // field in <sinter/compiler.h>: "eight_bit.smoothing"
  OptionKind kind = OptionKind::kOther;
  bool repeated = false;  // may be repeated
  std::string_view help;

  /// The long name: "--jobs" in "-j,--jobs".
  std::string_view name() const { return flag.substr(flag.rfind(',') + 1); }
  /// A flag: "--packed", or "--serve", which accepts a value after '=' and is "on" without one.
  bool is_flag() const { return type.starts_with('=') || (type.empty() && values.empty()); }
};
/// All rows in the order of their file.
std::span<const OptionRow> option_rows();
/// The row of a flag, or null.
const OptionRow* find_option(std::string_view flag);

}  // namespace sinter::tools
