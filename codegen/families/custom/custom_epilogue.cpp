// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/custom/custom_epilogue.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sinter/error.h>

#include "codegen/emit/kernel_text.h"
#include "codegen/families/loops/body/body_writer.h"
#include "codegen/families/loops/schedule_parts.h"
#include "codegen/program/loop_lowering.h"
#include "codegen/program/region_space.h"

namespace sinter::codegen {
namespace {

/// The nodes after an output, as a graph over the value and the body's inputs.
struct Following {
  Graph graph;
  std::vector<std::size_t> outputs;  // indices of the body's outputs
  Shape space;                       // shape of its loops
  bool has_views = false;            // before a store
};

/// The value that other nodes read: the output, or a reshape of it.
ValueId read_value(const Graph& body, ValueId output) {
  for (const Node& node : body.nodes())
    if (node.op->kind == OpKind::kFused)
      for (const ValueId input : node.inputs)
        if (root_of(body, input) == output) return input;
  return output;
}

Following follow(const Graph& body, const Node& kernel, std::size_t output) {
  const ValueId stored = kernel.outputs[output], read = read_value(body, stored);
  GraphBuilder builder("epilogue");
  for (const auto& [symbol, range] : body.ranges()) builder.range(symbol, range);
  Following result;
  result.space = body.type(read).shape;
  std::map<ValueId, ValueId> known;
  const ValueId value = builder.input("value", body.type(read));
  known[read] = value;
  if (read != stored)
    known[stored] = builder.add("Reshape", {value}, {{"shape", body.type(stored).shape}});
  std::map<ValueId, ValueId> of_inputs;
  for (const ValueId input : body.inputs())
    of_inputs[input] = builder.input(body.value(input).name, body.type(input));
  const auto find = [&](ValueId from) -> std::optional<ValueId> {
    if (const auto at = known.find(from); at != known.end()) return at->second;
    if (const auto at = of_inputs.find(from); at != of_inputs.end()) return at->second;
    if (const auto& constant = body.value(from).constant) return builder.constant(constant);
    return std::nullopt;
  };
  for (const Node& node : body.nodes()) {
    if (&node == &kernel || known.contains(node.outputs[0])) continue;
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs)
      if (const auto found = find(input)) inputs.push_back(*found);
    if (inputs.size() != node.inputs.size()) continue;  // it depends on another output
    GraphBuilder::OriginScope scope(builder, node.origins);
    const std::vector<ValueId> results =
        node.op->kind == OpKind::kFused
            ? ir::inline_graph(builder, *node.body, inputs)
            : builder.add_multi(node.op->name, inputs, node.attrs, node.body);
    for (std::size_t i = 0; i < results.size(); ++i) known[node.outputs[i]] = results[i];
  }
  for (std::size_t i = 0; i < body.outputs().size(); ++i) {
    const auto found = known.find(body.outputs()[i]);
    if (found == known.end()) continue;
    result.outputs.push_back(i);
    builder.output(fmt::format("out{}", i), found->second);
  }
  if (result.outputs.empty()) builder.output("alone", value);
  result.graph = builder.finish();
  for (const ValueId each : result.graph.outputs())
    if (const Node* node = result.graph.producer(each))
      result.has_views =
          result.has_views || node->op->name == "Reshape" || node->op->name == "Transpose";
  return result;
}

/// True if the program reads the value only at its own loop index.
bool reads_own_element(const plan::fb::LoopProgramT& program, const ExprTable& exprs) {
  for (const auto& access : program.accesses) {
    if (program.buffers[access->buffer] != kStoredValue) continue;
    if (!access->gathers.empty() || !access->nonaffine.empty() || !access->guards.empty() ||
        exprs.dim(access->offset) != Dim(0))
      return false;
    Dim dense = 1;
    for (std::size_t d = program.extents.size(); d-- > 0;) {
      const Dim& extent = exprs.dim(program.extents[d]);
      if (extent != Dim(1) && exprs.dim(access->strides[d]) != dense) return false;
      dense *= extent;
    }
  }
  return true;
}

/// "n0" of "i32 n0 /* batch */".
std::string name_of(const std::string& parameter) {
  const std::string declared = parameter.substr(0, parameter.find(" /*"));
  return declared.substr(declared.rfind(' ') + 1);
}

}  // namespace

std::vector<std::size_t> stored_outputs(const Graph& body, const Node& kernel, std::size_t output) {
  return follow(body, kernel, output).outputs;
}

CustomEpilogue lower_epilogue(const Graph& body, const Node& kernel, std::size_t output,
                              Buffers inputs, Buffers outputs, std::uint32_t alone,
                              ExprTable& exprs) {
  const Following following = follow(body, kernel, output);
  std::vector<std::uint32_t> reads{kStoredValue}, writes;
  reads.insert(reads.end(), inputs.begin(), inputs.end());
  for (const std::size_t number : following.outputs) writes.push_back(outputs[number]);
  if (writes.empty()) writes.push_back(alone);
  // A store through a view needs a row: only a reduction's results have the view's inverse.
  std::vector<bool> inner(following.space.size(), false);
  if (following.has_views && !inner.empty()) inner.back() = true;
  CustomEpilogue result;
  result.output = output;
  result.type = body.type(kernel.outputs[output]).dtype;
  result.program = lower_region_over(following.graph, reads, writes, exprs, following.space, inner);
  if (!reads_own_element(result.program, exprs))
    throw Error(ErrorCode::kInternal,
                fmt::format("what follows output {} of '{}' reads other elements than the one that "
                            "is stored",
                            output, kernel.attrs.get_string("operator")));
  for (const std::uint32_t buffer : result.program.buffers)
    if (buffer != kStoredValue) result.buffers.push_back(buffer);
  return result;
}

EpilogueText epilogue_text(const CustomEpilogue& epilogue, const std::string& name,
                           std::span<const DType> types, const KernelRequest& facts,
                           ExprTable& exprs) {
  KernelRequest own{&epilogue.program, "store_" + name, {}, {}};
  own.precise = facts.precise;
  own.device = facts.device;
  const auto& buffers = epilogue.program.buffers;
  for (std::size_t b = 0, next = 0; b < buffers.size(); ++b)
    own.buffer_types.push_back(buffers[b] == kStoredValue ? epilogue.type : types[next++]);
  const auto value = std::ranges::find(buffers, kStoredValue);
  if (value != buffers.end()) own.hidden = static_cast<std::uint32_t>(value - buffers.begin());
  const ProgramAnalysis analysis(own, exprs);
  const Schedule schedule = with_vectors(no_vectors(analysis), PointwiseParameters{});
  Arguments args(analysis);
  auto [mapping, wide] = map_vector(analysis, schedule, args);
  for (std::size_t i = 0; i < analysis.instr_count(); ++i) {
    const auto& instr = analysis.instr(i);
    if (instr.kind == plan::fb::InstrKind::Load &&
        buffers[analysis.access(instr.access).buffer] == kStoredValue)
      mapping.gemm.products.push_back({i, "value", "", ""});
  }
  const std::string statements = write_body(analysis, mapping, args);
  const std::string body = args.sizes_from_data(ir::Dim(1)) + statements;

  EpilogueText result;
  result.headers.push_back(body_header(analysis));
  if (statements.find("load_if<") != std::string::npos) result.headers.emplace_back("vector.cuh");
  result.args = args.kernel_args();
  const std::vector<std::string> members = args.parameters();
  std::vector<std::string> passed;
  for (const std::string& member : members) {
    const std::string plain = name_of(member);
    passed.push_back(plain);
    std::string parameter = member;
    result.parameters.push_back(
        parameter.replace(parameter.find(" " + plain) + 1, plain.size(), name + "_" + plain));
  }
  const std::string type = compute_name(epilogue.type), number = count_type(wide);
  std::vector<std::string> parameters = members;
  parameters.push_back(type + " value");
  parameters.push_back(number + " flat");
  result.text =
      fmt::format("namespace epilogues {{\nSINTER_DEVICE void\n{} {{\n{}}}\nstruct {} {{\n",
                  signature_text(own.name, parameters), body, name);
  for (const std::string& member : members)
    result.text += fmt::format("  {};\n", member.substr(0, member.find(" /*")));
  passed.emplace_back("value");
  passed.push_back(number + "(i)");
  result.text += fmt::format("  SINTER_DEVICE void store(i64 i, {} value) const {{ {}({}); }}\n",
                             type, own.name, fmt::join(passed, ", "));
  result.text += "};\n}\n";
  std::vector<std::string> names;
  for (const std::string& parameter : result.parameters) names.push_back(name_of(parameter));
  result.value = fmt::format("epilogues::{}{{{}}}", name, fmt::join(names, ", "));
  return result;
}

}  // namespace sinter::codegen
