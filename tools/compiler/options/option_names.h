// SPDX-License-Identifier: Apache-2.0
// Names of options in messages: inside the compiler they are flags ("--dim seq=8"); the library's
// boundary replaces them by fields ("dims seq=8").
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace sinter::tools {

/// The reader: a user of `sinter`, or of <sinter/compiler.h>.
enum class OptionNames { kFlags, kFields };

struct OptionName {
  std::string_view flag;   // "--dim"
  std::string_view field;  // "dims", a member of CompileOptions or of the call's other options
};
/// All options that messages mention.
std::span<const OptionName> option_names();

/// Replaces the flags in `message` by names of fields.
std::string with_fields(std::string_view message);

}  // namespace sinter::tools
