#include "tools/compiler/inspect/why.h"

#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "fusion/explain.h"
#include "fusion/regions/rebuild.h"
#include "ir/text/text.h"
#include "tools/compiler/options/near_matches.h"

namespace sinter::tools {
namespace {

using fusion::Boundary;
using fusion::Decision;
using fusion::Explanation;
using fusion::NodeLife;
using fusion::Relation;
using nlohmann::ordered_json;

/// Longer lists end with how much is left out; --json has all.
constexpr std::size_t kMostLines = 12;

/// Operators of the model by node name.
std::map<std::string, std::string> known_nodes(const frontend::ImportedModel& model) {
  std::map<std::string, std::string> known;
  for (const auto& node : model.nodes) known.emplace(node.name, node.op);
  for (const auto& node : model.graph.nodes())
    for (const auto& origin : node.origins) known.emplace(origin, node.op->name);
  return known;
}

void check_name(const std::string& name, const std::map<std::string, std::string>& known) {
  if (known.contains(name)) return;
  std::vector<std::string> names;
  for (const auto& [each, op] : known) names.push_back(each);
  const auto near = near_matches(name, names);
  throw Error(
      ErrorCode::kUsage,
      fmt::format(
          "the model has no node '{}'{}; names are those of the ONNX nodes, or operator "
          "and position of nodes without (`sinter inspect MODEL --graph`)",
          name, near.empty() ? "" : fmt::format(": did you mean '{}'?", fmt::join(near, "', '"))));
}

/// Why nothing comes from a node behind a pass.
std::string gone_because(const std::string& pass) {
  static const std::map<std::string, std::string> reasons = {
      {"import", "its result was known at import: a constant, a shape, or nothing reads it"},
      {"fold_constants", "its result does not depend on the inputs and was computed"},
      {"fold_scales", "it went into the weights of a product or convolution"},
      {"recognise", "an operator that does the same as several took its place"},
      {"simplify", "the algebra left nothing to compute"},
      {"lower_precision", "types made it needless"}};
  const auto found = reasons.find(pass);
  return found != reasons.end() ? found->second : "what took its place computes the same";
}

std::string bytes(double count) { return format_bytes(count); }

std::string launches(double count) {
  return fmt::format("{:.3g} launch{}", count, count == 1 ? "" : "es");
}

class Why {
 public:
  Why(const Explanation& why, const ir::Graph& last,
      const std::map<std::string, std::string>& operators, const Console& console)
      : why_(why), last_(last), operators_(operators), console_(console) {}

  void print() {
    report_ = {{"a", life(why_.a)}, {"b", life(why_.b)}};
    report_["together"] = why_.relation == Relation::kOneKernel;
    switch (why_.relation) {
      case Relation::kOneKernel: one_kernel(); break;
      case Relation::kSeparate: separate(); break;
      case Relation::kUnrelated: unrelated(); break;
      case Relation::kNoKernel: no_kernel(); break;
    }
    report_["bytes"] = why_.bytes;
    report_["launches"] = why_.launches;
    report_["operations_repeated"] = why_.operations;
    if (why_.relation != Relation::kNoKernel)
      console_.print("bytes are those of a typical shape: symbols count as 32, within their range");
    console_.result(report_);
  }

 private:
  std::string kernel_text(ir::NodeId id) const { return fusion::describe(last_.node(id)); }

  ordered_json life(const NodeLife& life) {
    ordered_json changes = ordered_json::array(), kernels = ordered_json::array();
    std::string text = fmt::format("{} ({})", life.name, operators_.at(life.name));
    for (const auto& change : life.changes) {
      changes.push_back({{"pass", change.pass}, {"became", change.became}});
      text += fmt::format("\n  {}: {}", change.pass, change.became);
    }
    if (!life.gone_in.empty())
      text += fmt::format("\n  {}: gone; {}", life.gone_in, gone_because(life.gone_in));
    for (const auto id : life.kernels) kernels.push_back(kernel_text(id));
    if (!kernels.empty())
      text += fmt::format("\n  computed in {}",
                          fmt::join(kernels.get<std::vector<std::string>>(), " and in "));
    console_.print(text);
    return {{"name", life.name},
            {"op", operators_.at(life.name)},
            {"changes", changes},
            {"gone_in", life.gone_in},
            {"kernels", kernels}};
  }

  ordered_json decisions(const std::vector<Decision>& all, bool is_shown = true) {
    ordered_json report = ordered_json::array();
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Decision& decision = all[i];
      if (is_shown && i < kMostLines)
        console_.print(fmt::format("  {}: {} -> {}: {}", decision.pass, decision.producer,
                                   decision.consumer, decision.reason));
      else if (is_shown && i == kMostLines)
        console_.print(fmt::format("  and {} more", all.size() - i));
      report.push_back({{"pass", decision.pass},
                        {"producer", decision.producer},
                        {"consumer", decision.consumer},
                        {"fused", decision.fused},
                        {"reason", decision.reason},
                        {"bytes", decision.bytes},
                        {"launches", decision.launches},
                        {"operations_repeated", decision.operations}});
    }
    return report;
  }

  std::string repeated() const {
    return why_.operations > 0
               ? fmt::format(", against {:.3g} operations done again", why_.operations)
               : "";
  }

  void one_kernel() {
    std::vector<std::string> kernels;
    for (const auto id : why_.shared) kernels.push_back(kernel_text(id));
    report_["relation"] = "one kernel";
    report_["kernels"] = kernels;
    report_["between"] = why_.between;
    console_.print(fmt::format(
        "in one kernel: {}{}", fmt::join(kernels, ", and "),
        why_.between.empty() ? "" : fmt::format("; with {}", fmt::join(why_.between, ", "))));
    console_.print(fmt::format(
        "which saves {} {}, and {}{}", bytes(why_.bytes),
        why_.side_by_side ? "that both read" : "that would be stored and read between them",
        launches(why_.launches), repeated()));
    report_["decisions"] = decisions(why_.decisions);
  }

  void separate() {
    report_["relation"] = "separate kernels";
    console_.print(fmt::format("not in one kernel: data flow from {} to {} over {} boundar{}",
                               why_.from_b_to_a ? why_.b.name : why_.a.name,
                               why_.from_b_to_a ? why_.a.name : why_.b.name, why_.boundaries.size(),
                               why_.boundaries.size() == 1 ? "y" : "ies"));
    report_["boundaries"] = ordered_json::array();
    for (std::size_t i = 0; i < why_.boundaries.size(); ++i)
      boundary(why_.boundaries[i], i < kMostLines);
    if (why_.boundaries.size() > kMostLines)
      console_.print(fmt::format("and {} more boundaries", why_.boundaries.size() - kMostLines));
    console_.print(
        fmt::format("one kernel of all of it would save {} stored and read in between, "
                    "and {}{}",
                    bytes(why_.bytes), launches(why_.launches), repeated()));
  }

  void boundary(const Boundary& boundary, bool is_shown) {
    std::vector<std::string> types;
    for (const auto& type : boundary.values) types.push_back(ir::to_string(type));
    ordered_json entry = {{"from", kernel_text(boundary.from)},
                          {"to", kernel_text(boundary.to)},
                          {"values", types},
                          {"bytes_read", boundary.read_bytes},
                          {"bytes_stored", boundary.stored_bytes},
                          {"reason", boundary.reason}};
    if (is_shown) {
      console_.print(fmt::format(
          "{} -> {}: {}, {} read{}", kernel_text(boundary.from), kernel_text(boundary.to),
          fmt::join(types, ", "), bytes(boundary.read_bytes),
          boundary.stored_bytes > 0 ? fmt::format(" and {} stored", bytes(boundary.stored_bytes))
                                    : ", stored for others too"));
      if (!boundary.reason.empty()) console_.print("  " + boundary.reason);
    }
    entry["decisions"] = decisions(boundary.decisions, is_shown);
    report_["boundaries"].push_back(std::move(entry));
  }

  void unrelated() {
    report_["relation"] = "unrelated";
    console_.print(fmt::format(
        "not in one kernel: no data flow between them. One kernel would save {} that both read, "
        "and {}: only small kernels that wait for equally many are brought together for that",
        bytes(why_.bytes), launches(why_.launches)));
  }

  void no_kernel() {
    report_["relation"] = "no kernel";
    for (const NodeLife* life : {&why_.a, &why_.b}) {
      if (!life->kernels.empty()) continue;
      console_.print(
          life->gone_in.empty()
              ? fmt::format("{} is another shape of the same memory: no kernel computes "
                            "it, it moves no bytes",
                            life->name)
              : fmt::format("nothing of {} is left to compute: it moves no bytes", life->name));
    }
  }

  const Explanation& why_;
  const ir::Graph& last_;
  const std::map<std::string, std::string>& operators_;
  const Console& console_;
  ordered_json report_;
};

}  // namespace

void explain_why(const BuildOptions& options, const frontend::ImportedModel& model,
                 const Target& target, const std::string& a, const std::string& b,
                 const Console& console) {
  const auto known = known_nodes(model);
  check_name(a, known);
  check_name(b, known);
  if (a == b) throw Error(ErrorCode::kUsage, "--why takes two nodes; both are '" + a + "'");
  fusion::Trace trace({a, b}, model.graph);
  const PipelineRun run = run_passes(
      options, model, target, console,
      [&trace](std::string_view pass, const ir::Graph& graph) { trace.after(pass, graph); });
  const Explanation why =
      fusion::explain(model.graph, run.graph, run.context, trace.lives()[0], trace.lives()[1]);
  Why(why, run.graph, known, console).print();
}

}  // namespace sinter::tools
