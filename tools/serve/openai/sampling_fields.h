// SPDX-License-Identifier: Apache-2.0
// How a client wants tokens to be drawn: sampling_rows(), and what is more than a number.
#pragma once

#include <sinter/engine.h>

#include "tools/serve/api/request_fields.h"
#include "tools/serve/models/served_model.h"

namespace sinter::tools {

/// Takes the numbers of sampling_rows(), `seed`, `n`, `stop`, `ignore_eos`, `min_tokens` and
/// `logit_bias`. What is not there is as generation_config.json of
/// the model has it; a seed that is not there is another one for each request. Throws ApiError
/// (400).
SamplingParameters take_sampling(RequestFields& fields, const ServedModel& model);

}  // namespace sinter::tools
