// SPDX-License-Identifier: Apache-2.0
#include "codegen/emit/memory/clear_before.h"

#include <memory>
#include <utility>

#include <fmt/format.h>

#include "codegen/emit/kernel_parameters.h"
#include "codegen/emit/kernel_text.h"

namespace sinter::codegen {

void clear_before(EmittedKernel& kernel, const std::string& name, std::uint32_t buffer,
                  const Dim& words, ExprTable& exprs) {
  constexpr int kClearThreads = 256;
  KernelParameters parameters(exprs);
  parameters.buffer("u64* words", buffer);
  const std::string count = parameters.dim(words);
  const std::string function = name + "_clear";
  plan::fb::KernelStepT clear;
  clear.args = parameters.args();
  kernel.source += fmt::format(
      "\nextern \"C\" __global__ void __launch_bounds__({0})\n{1} {{\n{2}"
      "  const u64 i = u64(blockIdx.x) * {0} + threadIdx.x;\n"
      "  if (i < u64({3})) words[i] = 0;\n}}\n",
      kClearThreads, signature_text(function, parameters.texts()), parameters.lines(), count);
  auto variant = std::make_unique<plan::fb::KernelVariantT>();
  variant->function = function;
  variant->grid = {exprs.intern(ir::ceil_div(words, kClearThreads, exprs.ranges())),
                   exprs.intern(1), exprs.intern(1)};
  variant->block = {kClearThreads, 1, 1};
  variant->schedule = "clear";
  clear.variants.push_back(std::move(variant));
  kernel.more.push_back(std::move(kernel.step));
  kernel.step = std::move(clear);
}

}  // namespace sinter::codegen
