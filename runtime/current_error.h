// Exceptions of the standard library as errors with a code.
#pragma once

#include <sinter/error.h>

namespace sinter {

/// The exception that is being handled, as an Error. A lack of memory, of address space or of
/// threads is kOutOfMemory; what is none of Sinter's, kInternal. To be called in a catch (...).
Error current_error();

}  // namespace sinter
