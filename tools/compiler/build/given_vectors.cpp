// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/build/given_vectors.h"

#include <algorithm>
#include <vector>

#include "frontend/import.h"
#include "fusion/context.h"
#include "runtime/format_error.h"
#include "tools/compiler/build/node_copy.h"

namespace sinter::tools {
namespace {

using ir::Dim;
using ir::ValueId;

constexpr const char *kEmbedded = "inputs_embeds", *kGivenSymbol = "given";

/// The vectors of tokens.
ValueId embedded(ir::GraphBuilder& b, const ir::Graph& embeddings, ValueId ids) {
  if (embeddings.inputs().size() != 1 || embeddings.outputs().size() != 1)
    throw usage_error(
        "--embeddings: it has {} inputs and {} outputs: expected token ids in and "
        "their vectors out",
        embeddings.inputs().size(), embeddings.outputs().size());
  NodeCopier copier(b, embeddings);
  if (!copier.feed(embeddings.inputs()[0], ids))
    throw usage_error("--embeddings: it takes {}, and the decoder's tokens are {}",
                      ir::to_string(embeddings.type(embeddings.inputs()[0])),
                      ir::to_string(b.type(ids)));
  for (const ir::Node& node : embeddings.nodes()) copier.copy(node);
  return copier.map(embeddings.outputs()[0]);
}

}  // namespace

ir::Graph with_embeddings(const ir::Graph& decoder, const ir::Graph& embeddings) {
  const auto at = std::ranges::find_if(decoder.inputs(), [&](ValueId input) {
    return decoder.value(input).name == kEmbedded && decoder.type(input).shape.size() == 3 &&
           is_float(decoder.type(input).dtype);
  });
  if (at == decoder.inputs().end())
    throw usage_error("--embeddings: the decoder takes no '{}', floats [batch, tokens, width]",
                      kEmbedded);
  const ir::TensorType type = decoder.type(*at);
  const Dim batch = type.shape[0], tokens = type.shape[1], width = type.shape[2];
  ir::GraphBuilder b(decoder.name());
  for (const auto& [symbol, range] : decoder.ranges()) b.range(symbol, range);
  ir::Range range;
  range.min = 1;
  range.max = frontend::kDefaultMaxDim;
  b.range(kGivenSymbol, range);
  const ValueId ids = b.input("input_ids", {DType::kInt64, {batch, tokens}});
  const ValueId vectors =
      b.input(fusion::paged_names::kGivenVectors, {type.dtype, {Dim::symbol(kGivenSymbol), width}});
  const ValueId rows = b.input(fusion::paged_names::kGivenRows, {DType::kInt64, {batch, tokens}});
  ValueId x = embedded(b, embeddings, ids);
  if (b.type(x) != type)
    throw usage_error("--embeddings: it gives {}, and the decoder takes {}",
                      ir::to_string(b.type(x)), ir::to_string(type));
  {
    const ir::GraphBuilder::OriginScope scope(b, {"given_vectors"});
    const ValueId zero = b.scalar(DType::kInt64, 0);
    const ValueId given =
        b.add("Gather", {vectors, b.add("Max", {rows, zero})}, {{"axis", std::int64_t{0}}});
    const ValueId is_given = b.add("Reshape", {b.add("GreaterOrEqual", {rows, zero})},
                                   {{"shape", ir::Shape{batch, tokens, Dim(1)}}});
    x = b.add("Where", {is_given, given, x});
  }
  std::vector<ValueId> inputs;
  for (const ValueId input : decoder.inputs())
    inputs.push_back(input == *at ? x : b.input(decoder.value(input).name, decoder.type(input)));
  const auto outputs = ir::inline_graph(b, decoder, inputs);
  for (std::size_t i = 0; i < outputs.size(); ++i) b.output(decoder.output_names()[i], outputs[i]);
  const auto place = static_cast<int>(at - decoder.inputs().begin());
  for (const ir::State& state : decoder.states())
    b.state({state.input + (state.input < place ? 3 : 2), state.output});
  return b.finish();
}

}  // namespace sinter::tools
