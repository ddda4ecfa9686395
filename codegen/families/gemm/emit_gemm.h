// Kernels of matrix products.
#pragma once

#include <string>

#include "codegen/emit/kernel_request.h"
#include "codegen/families/gemm/gemm_lowering.h"

namespace sinter::codegen {

/// Makes the request one for `product`, which must outlive it, and its program.
void set_gemm(KernelRequest& request, const GemmProgram& product);

/// Chooses schedules for a request with a product and writes the kernel. Deterministic. Throws
/// Error(kUnsupported) naming the request if no schedule takes it.
EmittedKernel emit_gemm(const KernelRequest& request, ExprTable& exprs);

/// Whether a kernel can be made for a request with a product; else `reason` says why not.
bool can_emit_gemm(const KernelRequest& request, ExprTable& exprs, std::string& reason);

}  // namespace sinter::codegen
