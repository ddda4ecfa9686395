// SPDX-License-Identifier: Apache-2.0
#include "codegen/plan/largest_sizes.h"

#include <algorithm>

#include <fmt/format.h>
#include <sinter/error.h>

#include "runtime/plan/step_visitor.h"

namespace sinter::codegen {
namespace {

namespace fb = plan::fb;

class Bounds {
 public:
  explicit Bounds(ExprTable& exprs) : exprs_(exprs) {}

  void take(std::uint32_t& expression) {
    if (exprs_.is_from_data(expression)) expression = exprs_.largest(expression);
  }
  void take(std::vector<std::uint32_t>& expressions) {
    for (std::uint32_t& expression : expressions) take(expression);
  }

  void refuse(std::uint32_t expression, const char* what) const {
    if (!exprs_.is_from_data(expression)) return;
    throw Error(ErrorCode::kUnsupported,
                fmt::format("{} is {}, which only the run knows, and the library is called with "
                            "sizes that the host knows",
                            what, exprs_.dim(expression).to_string()));
  }

  /// False if only the device could decide the condition.
  bool take(fb::Condition& condition) {
    if (!exprs_.is_from_data(condition.expression())) return true;
    if (condition.divisor() > 1) return false;
    condition = fb::Condition(exprs_.largest(condition.expression()), 1, condition.max());
    return true;
  }
  bool take(std::vector<fb::Condition>& conditions) {
    return std::ranges::all_of(conditions,
                               [&](fb::Condition& condition) { return take(condition); });
  }

  void take(fb::KernelStepT& kernel) {
    std::erase_if(kernel.variants, [&](const auto& variant) { return !take(variant->conditions); });
    if (kernel.variants.empty())
      throw Error(
          ErrorCode::kUnsupported,
          "its kernels are for sizes of certain divisors, and only the run knows the sizes");
    for (const auto& variant : kernel.variants) {
      take(variant->grid);
      for (const auto& map : variant->maps) {
        refuse(map->offset, "an offset");
        take(map->extents);
        for (const std::uint32_t stride : map->strides) refuse(stride, "a stride");
      }
    }
  }

  void take(fb::MatmulStepT& matmul) {
    refuse(matmul.k, "k");
    for (std::uint32_t* size : {&matmul.m, &matmul.n}) take(*size);
    take(matmul.batch);
    for (const fb::MatrixT* matrix :
         {matmul.a.get(), matmul.b.get(), matmul.d.get(), matmul.residual.get()}) {
      if (matrix == nullptr) continue;
      refuse(matrix->offset, "an offset");
      refuse(matrix->row_stride, "a stride of rows");
      refuse(matrix->col_stride, "a stride of columns");
      for (const std::uint32_t stride : matrix->batch_strides) refuse(stride, "a batch's stride");
    }
  }

  void take(fb::ConvStepT& conv) {
    for (auto* shape : {&conv.input_shape, &conv.output_shape}) {
      take(shape->front());
      for (const std::uint32_t dim : *shape) refuse(dim, "a dimension of a convolution");
    }
  }

  void take(fb::WorkUnion& work) {
    if (auto* kernel = work.AsKernelStep()) take(*kernel);
    if (auto* matmul = work.AsMatmulStep()) take(*matmul);
    if (auto* conv = work.AsConvStep()) take(*conv);
    if (auto* copy = work.AsCopyStep()) take(copy->bytes);
    if (auto* loop = work.AsWhileStep(); loop != nullptr && loop->trips >= 0)
      refuse(static_cast<std::uint32_t>(loop->trips), "the number of a loop's iterations");
  }

 private:
  ExprTable& exprs_;
};

}  // namespace

void ask_for_the_largest(StepT& step, ExprTable& exprs) {
  Bounds bounds(exprs);
  for (std::uint32_t* figure : {&step.bytes_read, &step.bytes_written, &step.flops})
    bounds.take(*figure);
  fb::TacticStepT* choice = step.work.AsTacticStep();
  if (choice == nullptr) return bounds.take(step.work);
  // A step keeps the tactics that work.
  std::string why;
  std::erase_if(choice->tactics, [&](const auto& tactic) {
    try {
      if (!bounds.take(tactic->conditions)) return true;
      for (const auto& part : tactic->parts) bounds.take(part->work);
      return false;
    } catch (const Error& error) {
      why = error.what();
      return true;
    }
  });
  if (choice->tactics.empty()) throw Error(ErrorCode::kUnsupported, why);
}

}  // namespace sinter::codegen
