// SPDX-License-Identifier: Apache-2.0
// Calibration: samples of a model's inputs, and running parts of the model on them.
#pragma once

#include <memory>

#include "fusion/context.h"
#include "tools/compiler/options/reporter.h"

namespace sinter::tools {

/// Calibration samples from `weights`: files or tensors named as the model's inputs, with an
/// input's shape or an additional leading dimension of samples. Parts of the model run on the CPU
/// target. Inputs without samples are zeros (an empty cache, the first position); symbols that
/// samples leave open take their maximum. Null without samples. The caller determines the stage of
/// progress; `reporter` must outlive the result. Throws Error(kUsage) for mismatched names, ranks
/// and numbers of samples.
std::shared_ptr<const fusion::Calibration> make_calibration(const WeightOptions& weights,
                                                            const ir::Graph& model,
                                                            const Reporter& reporter);

}  // namespace sinter::tools
