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
  bool asked = true;
};

}  // namespace sinter::codegen
