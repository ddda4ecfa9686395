// SPDX-License-Identifier: Apache-2.0
// Many small regions in one kernel launch.
#pragma once

#include "codegen/emit/kernel_request.h"
#include "codegen/families/horizontal/horizontal_lowering.h"

namespace sinter::codegen {

/// One kernel whose blocks find their part; parts with the most work for each block come first.
/// Regions that differ only in sizes share a device function. The text selects among few parts,
/// whose sizes may be symbolic. Many parts are in a table in the module; the kernel's argument is
/// then one structure with the buffers of all parts, each once, in order of first use. Uses
/// `request`'s name, origins and schedule options. `exprs` are the plan's. Throws
/// Error(kUnsupported) that names what is not supported.
EmittedKernel emit_horizontal(const HorizontalProgram& program, const KernelRequest& request,
                              ExprTable& exprs);

}  // namespace sinter::codegen
