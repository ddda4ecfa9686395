// SPDX-License-Identifier: Apache-2.0
// Kernels that route tokens to experts and sort the choices by expert.
#pragma once

#include <cstdint>
#include <vector>

#include "codegen/emit/kernel_request.h"
#include "codegen/families/routing/routing_problem.h"

namespace sinter::codegen {

EmittedKernel emit_routing(const RoutingProblem& problem, const std::vector<std::uint32_t>& scratch,
                           const KernelRequest& request, ExprTable& exprs);

}  // namespace sinter::codegen
