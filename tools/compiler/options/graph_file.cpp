#include "tools/compiler/options/graph_file.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <limits>

#include <fmt/format.h>

#include "ir/text/text.h"
#include "runtime/plan/hash.h"

namespace sinter::tools {
namespace {

std::ifstream open(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(ErrorCode::kUsage, fmt::format("'{}' cannot be opened", path));
  return file;
}

}  // namespace

bool is_graph_file(const std::string& path) {
  constexpr std::string_view kStart = "graph @";
  std::ifstream file = open(path);
  for (int c = file.get(); file; c = file.get()) {
    if (c == '#') {
      file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
    } else if (c != ' ' && c != '\t' && c != '\n' && c != '\r') {
      std::string start(1, static_cast<char>(c));
      start.resize(kStart.size());
      file.read(start.data() + 1, static_cast<std::streamsize>(kStart.size() - 1));
      return file.good() && start == kStart;
    }
  }
  return false;
}

frontend::ImportedModel read_graph_file(const std::string& path) {
  std::ifstream file = open(path);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  frontend::ImportedModel model;
  model.graph =
      with_context(fmt::format("reading '{}'", path), [&] { return ir::parse_graph(text); });
  model.hash = plan::hash64(text);
  model.node_count = model.graph.nodes().size();
  return model;
}

bool is_fused(const ir::Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(),
                     [](const ir::Node& node) { return node.op->kind == ir::OpKind::kFused; });
}

}  // namespace sinter::tools
