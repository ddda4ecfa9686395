// SPDX-License-Identifier: Apache-2.0
#include "fusion/sharding/rank_writer.h"

#include <algorithm>

#include <fmt/format.h>
#include <sinter/error.h>

#include "fusion/regions/rebuild.h"

namespace sinter::fusion {

Split cheapest_source(const ShardingCosts& costs, ValueId value, std::span<const Split> forms,
                      Split to) {
  return *std::ranges::min_element(
      forms, {}, [&](const Split& from) { return costs.conversion(value, from, to); });
}

void RankWriter::give(ValueId old, Split split, ValueId value) {
  forms_[old.position()].emplace_back(split, value);
}

ValueId RankWriter::get(ValueId old, Split to) {
  auto& forms = forms_[old.position()];
  if (forms.empty() && graph_.is_constant(old)) {
    const Value& constant = graph_.value(old);
    forms.emplace_back(kWhole, builder_.constant(constant.constant, constant.name));
  }
  for (const auto& [split, value] : forms)
    if (split == to) return value;
  std::vector<Split> splits;
  for (const auto& form : forms) splits.push_back(form.first);
  const Split from = costs_ ? cheapest_source(*costs_, old, splits, to) : splits.at(0);
  const auto source = std::ranges::find(forms, from, &std::pair<Split, ValueId>::first);
  const Node* producer = graph_.producer(old);
  const GraphBuilder::OriginScope scope(builder_,
                                        producer ? producer->origins : std::vector<std::string>());
  const ValueId made = convert(old, source->second, from, to);
  if (from != kWhole) changes_.push_back({old, from, to});
  forms_[old.position()].emplace_back(to, made);
  return made;
}

ValueId RankWriter::convert(ValueId old, ValueId value, Split from, Split to) {
  const auto add = [&](std::string_view op, Attrs attrs) {
    attrs.set("ranks", ranks_.count);
    return builder_.add(op, {value}, std::move(attrs));
  };
  const auto axis = [](std::size_t at) { return static_cast<std::int64_t>(at); };
  if (from == kWhole && to.is_part()) return rank_slice(builder_, value, to, ranks_);
  if (from == kWhole && to == kOwned) return value;
  if (from == kPartial && to == kWhole) return add("AllReduce", {});
  if (from == kPartial && to.is_along()) return add("ReduceScatter", {{"axis", axis(to.at())}});
  if (from.is_along() && to.is_along())
    return add("AllToAll", {{"split", axis(to.at())}, {"concat", axis(from.at())}});
  if (to != kWhole) return convert(old, get(old, kWhole), kWhole, to);
  const Shape& shape = graph_.type(old).shape;
  if (from.is_along()) return add("AllGather", {{"axis", axis(from.at())}});
  const auto reshape = [&](ValueId parts, Shape to_shape) {
    return builder_.add("Reshape", {parts}, {{"shape", std::move(to_shape)}});
  };
  if (from.kind == Split::Kind::kJoined)
    return reshape(add("AllGather", {{"axis", axis(from.at() + 1)}}), shape);
  if (from.is_shared) {
    // Of the ranks that share a part, the first one's.
    const ValueId all = add("AllGather", {{"axis", axis(from.at())}});
    Shape apart = shape;
    apart[from.at()] = part_of(shape[from.at()], ranks_.shared).value();
    const auto at = apart.begin() + static_cast<std::ptrdiff_t>(from.at());
    apart.insert(at, {Dim(ranks_.shared), Dim(ranks_.sharing())});
    Shape first = apart;
    first[from.at() + 1] = Dim(1);
    const ValueId firsts = builder_.add("Slice", {reshape(all, apart)},
                                        {{"starts", Shape(apart.size(), Dim(0))},
                                         {"shape", first},
                                         {"steps", Ints(apart.size(), 1)}});
    return reshape(firsts, shape);
  }
  throw Error(ErrorCode::kInternal,
              fmt::format("a value that is {} cannot become {}", to_string(from), to_string(to)));
}

void RankWriter::add(const Node& node, const Strategy& way) {
  std::vector<ValueId> inputs;
  for (std::size_t i = 0; i < node.inputs.size(); ++i)
    inputs.push_back(get(node.inputs[i], way.inputs[i]));
  const GraphBuilder::OriginScope scope(builder_, node.origins);
  const std::vector<ValueId> outputs =
      way.write ? way.write(builder_, inputs)
                : builder_.add_multi(node.op->name, inputs, way.attrs, node.body);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const TensorType expected = part_of(graph_.type(node.outputs[i]), way.outputs[i], ranks_);
    if (builder_.type(outputs[i]) != expected)
      throw Error(ErrorCode::kInternal,
                  fmt::format("{}, by '{}': a rank's result is {}, not {}", describe(node),
                              way.name, to_string(builder_.type(outputs[i])), to_string(expected)));
    const std::string& name = graph_.value(node.outputs[i]).name;
    if (!name.empty()) builder_.name(outputs[i], name);
    give(node.outputs[i], way.outputs[i], outputs[i]);
  }
}

}  // namespace sinter::fusion
