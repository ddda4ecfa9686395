// SPDX-License-Identifier: Apache-2.0
// Measuring runs: samples and what is said of them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include <sinter/compiler.h>

#include "ir/tensor.h"

namespace sinter::tools {

Statistics statistics_of(std::vector<double> samples);
nlohmann::ordered_json to_json(const Statistics& statistics);

/// Wall time of one synchronous run with the current inputs, in microseconds.
double time_run(Session& session);
/// Sets all inputs of `session` from `inputs`, in the plan's order.
void set_inputs(Session& session, const Plan& plan, const std::vector<ir::Tensor>& inputs);
/// A session's first run; if it does not take inputs that make_inputs() has drawn, the error says
/// that they were.
void first_run(Session& session, const RunInputs& inputs);
std::vector<ir::Tensor> get_outputs(const Session& session, const Plan& plan);

/// "input_ids [1, 64], mask [1, 64]"
std::string describe_shapes(const Plan& plan, const std::vector<ir::Tensor>& inputs);

}  // namespace sinter::tools
