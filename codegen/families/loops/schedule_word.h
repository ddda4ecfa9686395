// What the words of a schedule's text are made of.
#pragma once

#include <tuple>

namespace sinter::codegen {

/// " key=7" for a number, " key" for a flag; nothing for the usual value. What a rule decides
/// (not `asked`) is written but cannot be asked for.
template <class Member>
struct Word {
  const char* key;
  Member member;
  bool asked;
  constexpr Word(const char* name, Member of, bool is_asked = true)
      : key(name), member(of), asked(is_asked) {}
};

}  // namespace sinter::codegen
