// --calibration: samples of a model's inputs, and what runs parts of the model on them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fusion/pipeline.h"
#include "tools/cli/console.h"

namespace sinter::tools {

/// The samples in `files`, archives of arrays named as the model's inputs, of an input's shape or
/// with a dimension in front along which samples lie; parts run on the CPU target. Inputs that no
/// file gives are zeros (a cache is empty, a position the first); symbols that the files leave open
/// are the greatest size in them. Null without files. Throws Error(kUsage) for names, ranks and
/// numbers of samples that do not fit.
std::shared_ptr<const fusion::Calibration> make_calibration(const std::vector<std::string>& files,
                                                            const ir::Graph& model,
                                                            const Console& console);

}  // namespace sinter::tools
