// SPDX-License-Identifier: Apache-2.0
// What graphs of whole texts give: vectors of tokens, labels, or an answer of two tokens.
#include "frontend/decoders/layer_writer.h"

namespace sinter::frontend {

using ir::Dim;
using ir::Ints;
using ir::ValueId;

/// [batch, hidden] of x [batch, sequence, hidden]; `mask` [batch, sequence] is 1 for tokens that
/// count. Wherever padding stands, the last token is the last one that counts.
ValueId LayerWriter::pooled(ValueId x, ValueId mask, TextPooling pooling) {
  const auto& shape = w_.shape(x);
  const Dim batch = shape[0], sequence = shape[1];
  if (pooling == TextPooling::kFirst)
    return w_.b.add("Gather", {x, w_.b.scalar(DType::kInt64, 0)}, {{"axis", std::int64_t{1}}});
  const auto along = [](std::int64_t keeps) {
    return ir::Attrs{{"axes", Ints{1}}, {"keepdims", keeps}};
  };
  ValueId share = mask;
  if (pooling == TextPooling::kLast) {
    const ValueId places =
        w_.add("Mul", mask, w_.add("Add", w_.iota(sequence, 1, 2), w_.b.scalar(DType::kInt64, 1)));
    share =
        w_.cast(w_.add("Equal", places, w_.b.add("ReduceMax", {places}, along(1))), DType::kInt64);
  }
  const ValueId weights = w_.cast(w_.reshape(share, {batch, sequence, Dim(1)}), DType::kFloat32);
  ValueId sum =
      w_.b.add("ReduceSum", {w_.add("Mul", w_.cast(x, DType::kFloat32), weights)}, along(0));
  if (pooling == TextPooling::kMean)
    sum = w_.add("Div", sum, w_.b.add("ReduceSum", {weights}, along(0)));
  return w_.cast(sum, w_.type());
}

ValueId LayerWriter::plain_linear(ValueId x, std::string_view what, std::int64_t rows) {
  const std::string name = weights_.name(std::string(what) + ".weight"),
                    bias = weights_.name(std::string(what) + ".bias");
  const ValueId y = w_.product(x, weights_.take(name, {rows, c_.hidden}), name);
  return weights_.has(bias) ? w_.add("Add", y, vector(bias, rows)) : y;
}

ValueId LayerWriter::labels(ValueId x, ValueId mask) {
  ValueId y = pooled(x, mask, c_.text.pooling);
  if (c_.text.has_dense)
    y = norm(w_.activated(plain_linear(y, "cls", c_.hidden), Activation::kGelu), "cls_norm");
  // The file says how many labels there are.
  const std::string name = weights_.name("cls_output.weight");
  const Ints shape = weights_.has(name) ? weights_.shape(name) : Ints{};
  return plain_linear(y, "cls_output", shape.empty() ? 1 : shape[0]);
}

ValueId LayerWriter::answer(ValueId x, ValueId mask) {
  const std::string own = weights_.name("output.weight");
  const std::string name = weights_.has(own) ? own : weights_.name("token_embd.weight");
  const bool has_other = c_.text.no >= 0;
  const ValueId tokens = w_.b.constant(
      has_other ? ir::Tensor::of(DType::kInt64, Ints{2}, std::vector{c_.text.yes, c_.text.no})
                : ir::Tensor::of(DType::kInt64, Ints{1}, std::vector{c_.text.yes}));
  const ValueId rows = w_.rows(weights_.take(name, {c_.vocabulary, c_.hidden}), name, tokens);
  const ValueId logits = w_.capped(
      w_.scaled(w_.add("MatMul", pooled(x, mask, TextPooling::kLast), w_.transpose(rows, {1, 0})),
                c_.logit_scale),
      c_.logit_cap);
  return has_other ? w_.add("Sub", w_.part(logits, 1, 0, 1), w_.part(logits, 1, 1, 1)) : logits;
}

void LayerWriter::write_text_output(ValueId x, ValueId mask) {
  switch (c_.text.use) {
    case TextUse::kNextToken: break;
    case TextUse::kVectors: w_.b.output("last_hidden_state", x); break;
    case TextUse::kLabels: w_.b.output("logits", labels(x, mask)); break;
    case TextUse::kAnswer: w_.b.output("scores", answer(x, mask)); break;
  }
}

}  // namespace sinter::frontend
