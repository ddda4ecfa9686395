// Matrices as libraries of products address them.
#pragma once

#include "ir/dim/dim.h"

namespace sinter::ir {

/// So many elements, a stride apart.
struct Walk {
  Dim extent, stride;
};

/// True if elements lie side by side along rows or columns, and the other steps over them whole. A
/// single row or column may step as it likes, but forward.
bool is_addressable(const Walk& rows, const Walk& columns, const Ranges& ranges);

}  // namespace sinter::ir
