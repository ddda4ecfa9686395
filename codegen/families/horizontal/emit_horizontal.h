// Many small regions in one launch.
#pragma once

#include "codegen/emit/kernel_request.h"
#include "codegen/families/horizontal/horizontal_lowering.h"

namespace sinter::codegen {

/// One kernel whose blocks find which part of the work is theirs; parts of which a block has the
/// most to do come first. Regions that differ in sizes alone are one device function. Few parts are
/// told apart by the kernel's text, and their sizes may be symbolic; many of them by a table in the
/// module, and the kernel's arguments are then one structure: the buffers of all parts, each once,
/// in order of first use. Of `request` the name, the origins and how it is asked for count.
/// `exprs`: the plan's. Throws Error(kUnsupported) naming what it cannot do.
EmittedKernel emit_horizontal(const HorizontalProgram& program, const KernelRequest& request,
                              ExprTable& exprs);

}  // namespace sinter::codegen
