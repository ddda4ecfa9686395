// SPDX-License-Identifier: Apache-2.0
// A kernel's translation unit, put together of its variants.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "codegen/emit/arguments.h"
#include "codegen/emit/kernel_request.h"
#include "codegen/emit/tensor_maps.h"

namespace sinter::codegen {

/// One compiled form of a kernel before the text is put together.
struct VariantText {
  std::vector<Condition> conditions;
  std::string schedule, chosen_by;
  std::string body;                  // statements of the function
  Dim blocks;                        // of the grid
  std::vector<std::uint32_t> block;  // threads along x, y, z
  int threads = 0;                   // of a block
  int blocks_at_once = 0;            // at least, per multiprocessor; 0: unbounded
  int cluster = 1;
  std::uint32_t shared_bytes = 0;  // dynamic
  bool programmatic_launch = false;
  std::vector<MapParameter> maps;  // if not empty, code for one GPU only
};

/// Says who chose each of `schedules`, after applying the request's `requested`. A forced schedule
/// leaves nothing to choose. `candidates_of(schedule)`: see apply_requested().
/// `cluster_of(schedule)`: blocks of a cluster.
template <typename Schedule, typename CandidatesOf, typename ClusterOf>
std::vector<std::string> choose_variants(const KernelRequest& request, const ExprTable& exprs,
                                         std::vector<Schedule>& schedules,
                                         std::vector<VariantChoice>& choices,
                                         const CandidatesOf& candidates_of,
                                         const ClusterOf& cluster_of) {
  // The host cannot check divisibility of a size that the run computes.
  std::erase_if(schedules, [&](const Schedule& schedule) {
    return std::ranges::any_of(schedule.conditions, [&](const Condition& condition) {
      return condition.divisor() > 1 && exprs.is_from_data(condition.expression());
    });
  });
  if (!request.schedule.empty()) return std::vector<std::string>(schedules.size(), kChosenByUser);
  return apply_requested(request.requested, schedules, choices, candidates_of,
                         [&](const Schedule& schedule) { return cluster_of(schedule) == 1; });
}

/// Adds the source and the step of `variants` to `kernel`. `headers` are the device headers that
/// they include, in order; `functions` is text before the first variant. All have the parameters
/// `args`.
void assemble(const KernelRequest& request, ExprTable& exprs, Arguments& args,
              const std::vector<VariantText>& variants, const std::vector<std::string>& headers,
              const std::string& functions, EmittedKernel& kernel);

}  // namespace sinter::codegen
