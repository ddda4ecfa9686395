// The kernel that makes packed weights floats in memory: codegen/families/gemm/weights/unpack.cuh.
#pragma once

#include <string>
#include <vector>

#include "codegen/emit/kernel_request.h"
#include "codegen/families/gemm/weights/unpacked_weights.h"

namespace sinter::codegen {

/// `programmatic_launch`: see KernelRequest. Its only variant takes all sizes on every GPU.
EmittedKernel emit_unpack(const UnpackProgram& program, const std::string& name,
                          const std::vector<std::string>& origins, ExprTable& exprs,
                          bool programmatic_launch);

}  // namespace sinter::codegen
