// SPDX-License-Identifier: Apache-2.0
// Post-processing of scores, shared by classifiers and regressors of ai.onnx.ml.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "frontend/ops/term.h"

namespace sinter::frontend {

enum class PostTransform : std::uint8_t { kNone, kSoftmax, kLogistic, kSoftmaxZero, kProbit };

/// Attribute post_transform by name. Throws Error(kInvalidModel) for any other.
PostTransform read_post_transform(const NodeContext& node);
/// Applies the transform to scores [rows, n] with a known n.
Term transform_scores(const Term& scores, PostTransform transform);

/// Input X as rows [rows, columns] of a float type: integers become float32, a vector becomes one
/// row.
Term read_rows(NodeContext& node);
/// Likewise of float32.
inline Term read_float_rows(NodeContext& node) { return read_rows(node).cast(DType::kFloat32); }

/// Class labels. Strings are their indices, and output 0 stands for them.
Ints read_labels(NodeContext& node, std::string_view ints, std::string_view strings);
/// labels[argmax of scores along the second dimension], the first of equal scores: [rows].
Term best_label(const Term& scores, const Ints& labels);
/// labels[1] where `positive`, bool [rows, 1], else labels[0]: [rows].
Term binary_label(const Term& positive, const Ints& labels);
/// Concatenates columns [rows, 1].
Term side_by_side(const Term& a, const Term& b);

/// An attribute of floats as a float32 constant of `shape`. Throws Error(kInvalidModel) if their
/// number differs.
Term float_constant(NodeContext& node, const std::vector<double>& values, Ints shape,
                    std::string_view what);

}  // namespace sinter::frontend
