// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/inspect/faster_form.h"

#include <string_view>

#include <fmt/format.h>

namespace sinter::tools {
namespace {

double rate_of(const MachineRates& rates, const char* arithmetic) {
  const auto found = rates.operations_per_second.find(arithmetic);
  return found == rates.operations_per_second.end() ? 0 : found->second;
}

/// "; no GEMM kernel: WHY; no library: WHY": what a tactic says of those that were refused.
std::string refusal_in(std::string_view how, std::string_view of) {
  const std::size_t at = how.find(of);
  if (at == how.npos) return "";
  how.remove_prefix(at + of.size());
  return std::string(how.substr(0, how.find(';')));
}

/// What another type of the operands would gain.
std::string faster_type(const StepTime& step, const MachineRates& rates) {
  constexpr double kWorth = 2;  // at least this much faster
  const double own = rate_of(rates, step.arithmetic.c_str());
  if (own <= 0) return "";
  if (step.arithmetic == "Double" && rate_of(rates, "Single") >= kWorth * own)
    return "products of float32 run on more units: cast the operands";
  if (step.arithmetic == "Single" && rate_of(rates, "Tf32") >= kWorth * own)
    return "tensor cores multiply float32 rounded to TF32: --precision tf32, or fp16";
  if (step.arithmetic == "Single" && rate_of(rates, "Half") >= kWorth * own)
    return "products of 16 bits are faster: --precision fp16 or bf16";
  return "";
}

}  // namespace

std::string faster_form(const StepTime& step, const MachineRates& rates) {
  // Loops, where a kernel or a library takes other forms of the same operator.
  for (const std::string_view of : {"; no GEMM kernel: ", "; no library: "})
    if (const std::string why = refusal_in(step.how, of); !why.empty())
      return fmt::format("it runs as loops, which a form that is not refused avoids: {}", why);
  return faster_type(step, rates);
}

}  // namespace sinter::tools
