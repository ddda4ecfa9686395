// SPDX-License-Identifier: Apache-2.0
// What there is to know of each option of compiling, as data: the rows of
// <sinter/compile_option_rows.inc>. Help, completion, the manifest, messages and Python's keywords
// are made from it; option_values.h reads and writes the values.
#pragma once

#include <span>
#include <string_view>

namespace sinter::tools {

/// Headings of --help, in its order.
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

/// Which verbs have an option: all that compile; all but compare, which compares what it says;
/// those that look at single passes (compile and verify); compile; none (Python alone). Each has
/// what the ones before have.
enum class OptionVerbs { kAll, kNotCompare, kPasses, kCompile, kNone };

/// Whether plans say in their manifest what an option was: never; if it is not the default; always;
/// the same of targets with generated kernels, and with short forms of functions.
enum class Recorded { kNever, kChanged, kAlways, kChangedForKernels, kAlwaysForMath };

/// What a value is; kOther: Python has a form of its own for it.
enum class OptionKind { kSwitch, kInteger, kNumber, kText, kTexts, kBytes, kChoice, kOther };
/// "switch", "integer", ..
std::string_view to_string(OptionKind kind);

struct OptionRow {
  std::string_view flag;      // "--strict", "-j,--jobs"; empty: the command line has none
  std::string_view keyword;   // of Python's compile(); empty: none
  std::string_view type;      // what --help calls its value; empty: a flag, or one of `values`
  std::string_view values;    // "on|off": no others; of a bool the first is true
  std::string_view standard;  // the default, as --help says it
  OptionGroup group = OptionGroup::kTarget;
  OptionVerbs verbs = OptionVerbs::kAll;
  Recorded recorded = Recorded::kNever;
  bool applied = true;     // false: the verb itself reads it, not set_option
  std::string_view field;  // of <sinter/compiler.h>'s calls: "eight_bit.smoothing"
  OptionKind kind = OptionKind::kOther;
  bool repeated = false;  // may be given several times
  std::string_view help;

  /// "--jobs", of "-j,--jobs".
  std::string_view name() const { return flag.substr(flag.rfind(',') + 1); }
  /// "--packed", or "--serve", which may have a value behind '=' and is "on" without one.
  bool is_flag() const { return type.starts_with('=') || (type.empty() && values.empty()); }
};
/// In the order of their file.
std::span<const OptionRow> option_rows();
/// By a flag, or null.
const OptionRow* find_option(std::string_view flag);

}  // namespace sinter::tools
