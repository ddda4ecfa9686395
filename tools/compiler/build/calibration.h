// SPDX-License-Identifier: Apache-2.0
// Calibration: samples of a model's inputs, and what runs parts of the model on them.
#pragma once

#include <memory>

#include "fusion/context.h"
#include "tools/compiler/options/reporter.h"

namespace sinter::tools {

/// The samples that `weights` gives, in files or tensors named as the model's inputs, of an input's
/// shape or with a dimension in front along which samples lie; parts run on the CPU target. Inputs
/// without samples are zeros (a cache is empty, a position the first); symbols that the samples
/// leave open are the greatest size in them. Null without any. Progress has the stage that its user
/// gives; `reporter` must outlive the result. Throws Error(kUsage) for names, ranks and numbers of
/// samples that do not fit.
std::shared_ptr<const fusion::Calibration> make_calibration(const WeightOptions& weights,
                                                            const ir::Graph& model,
                                                            const Reporter& reporter);

}  // namespace sinter::tools
