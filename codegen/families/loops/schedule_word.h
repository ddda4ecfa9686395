// SPDX-License-Identifier: Apache-2.0
// Words of a schedule's text.
#pragma once

#include <tuple>

namespace sinter::codegen {

/// " key=7" for a number, " key" for a flag; nothing for the default. If not `asked`, the rule
/// decides: it is printed but cannot be requested.
template <class Member>
struct Word {
  const char* key;
  Member member;
  bool asked;
  constexpr Word(const char* name, Member of, bool is_asked = true)
      : key(name), member(of), asked(is_asked) {}
};

}  // namespace sinter::codegen
