// Many small regions in one launch.
#pragma once

#include <string>
#include <vector>

#include "codegen/cuda/cuda_kernels.h"
#include "codegen/lowering/horizontal_lowering.h"

namespace sinter::codegen {

/// One kernel whose blocks look up in a table which row of which part is theirs; parts with the
/// most work come first. The kernel's arguments, one structure, are the buffers of all parts, each
/// once, in order of first use. Of `request` the name, the origins and how it is asked for count.
/// Throws Error(kUnsupported) naming what it cannot do.
EmittedKernel emit_horizontal(const HorizontalProgram& program, const KernelRequest& request,
                              ExprTable& exprs);

}  // namespace sinter::codegen
