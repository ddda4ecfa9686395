// SPDX-License-Identifier: Apache-2.0
#include "frontend/custom/read_operators.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <set>

#define TOML_EXCEPTIONS 1
#define TOML_ENABLE_FORMATTERS 0
#include <sinter/dtype.h>
#include <toml++/toml.h>

#include "frontend/custom/source_files.h"
#include "frontend/model/model_file.h"
#include "runtime/format_error.h"

namespace sinter::frontend {
namespace {

std::string read_file(const std::string& path) {
  const auto file = MappedFile::open(path);
  return {reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()};
}

bool is_identifier(std::string_view name) {
  const auto is_word = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
  return !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0 &&
         std::ranges::all_of(name, is_word);
}

/// True if CUDA text declares `function` as __global__.
bool is_kernel(std::string_view source, const std::string& function) {
  for (std::size_t at = 0; (at = source.find(function, at)) != std::string_view::npos;
       at += function.size()) {
    const std::size_t end = source.find_first_not_of(" \t\r\n", at + function.size());
    if (end == std::string_view::npos || source[end] != '(') continue;
    const std::size_t before = source.find_last_of(";{}", at);
    const std::size_t begin = before == std::string_view::npos ? 0 : before + 1;
    if (source.substr(begin, at - begin).find("__global__") != std::string_view::npos) return true;
  }
  return false;
}

/// One table of the file; unknown keys are errors.
class Table {
 public:
  Table(const toml::table& table, const std::string& path, std::string what,
        std::initializer_list<std::string_view> keys)
      : table_(table), path_(path), what_(std::move(what)) {
    for (const auto& [key, node] : table_)
      if (std::ranges::find(keys, key.str()) == keys.end())
        fail(node, fmt::format("there is no key '{}'; there are {}", key.str(), list(keys)));
  }

  [[noreturn]] void fail(const toml::node& at, const std::string& why) const {
    throw usage_error("{}, line {}: {}: {}", path_, at.source().begin.line, what_, why);
  }
  [[noreturn]] void fail(const std::string& why) const { fail(table_, why); }

  const toml::node* find(std::string_view key) const { return table_.get(key); }
  std::string text(std::string_view key, const char* fallback = nullptr) const {
    const toml::node* node = find(key);
    if (node == nullptr) {
      if (fallback == nullptr) fail(fmt::format("'{}' is missing", key));
      return fallback;
    }
    return text_of(*node, key);
  }
  /// A C identifier.
  std::string name(std::string_view key) const {
    std::string value = text(key);
    if (!is_identifier(value))
      fail(*find(key), fmt::format("{} = \"{}\" is no identifier", key, value));
    return value;
  }
  std::int64_t integer(std::string_view key, std::int64_t fallback, std::int64_t most) const {
    const toml::node* node = find(key);
    if (node == nullptr) return fallback;
    const auto value = node->value_exact<std::int64_t>();
    if (!value || *value < 1 || *value > most)
      fail(*node, fmt::format("'{}' must be an integer from 1 to {}", key, most));
    return *value;
  }
  /// A list of strings; integers are converted.
  std::vector<std::string> texts(std::string_view key) const {
    std::vector<std::string> result;
    const toml::node* node = find(key);
    if (node == nullptr) return result;
    const toml::array* array = node->as_array();
    if (array == nullptr) fail(*node, fmt::format("'{}' must be a list", key));
    for (const toml::node& item : *array) result.push_back(text_of(item, key));
    return result;
  }
  /// The array of tables at `key`, or a single table there.
  std::vector<const toml::table*> tables(std::string_view key) const {
    std::vector<const toml::table*> result;
    const toml::node* node = find(key);
    if (node == nullptr) return result;
    if (const toml::table* one = node->as_table()) return {one};
    const toml::array* array = node->as_array();
    if (array == nullptr) fail(*node, fmt::format("'{}' must be a table", key));
    for (const toml::node& item : *array) {
      if (!item.is_table()) fail(item, fmt::format("'{}' must be tables", key));
      result.push_back(item.as_table());
    }
    return result;
  }

 private:
  static std::string list(std::initializer_list<std::string_view> keys) {
    std::string result;
    for (const std::string_view key : keys)
      result += (result.empty() ? "" : ", ") + std::string(key);
    return result;
  }
  std::string text_of(const toml::node& node, std::string_view key) const {
    if (const auto text = node.value_exact<std::string>()) return *text;
    if (const auto number = node.value_exact<std::int64_t>()) return std::to_string(*number);
    fail(node, fmt::format("'{}' must be text", key));
  }

  const toml::table& table_;
  const std::string& path_;
  std::string what_;
};

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path) {}

  std::vector<CustomOperator> read(const toml::table& root) const {
    const Table file(root, path_, "the file", {"operator"});
    std::vector<CustomOperator> all;
    std::set<std::string> known;
    for (const toml::table* table : file.tables("operator")) {
      all.push_back(read_operator(*table));
      if (!known.insert(all.back().full_name()).second)
        file.fail(*table, fmt::format("'{}' is defined twice", all.back().full_name()));
    }
    if (all.empty()) file.fail("it defines no [[operator]]");
    return all;
  }

 private:
  CustomOperator read_operator(const toml::table& table) const {
    const auto called = [&](const std::string& what) {
      return Table(
          table, path_, what,
          {"domain", "name", "inputs", "attributes", "output", "reference", "cuda", "host"});
    };
    const Table given = called("operator");
    CustomOperator op;
    op.file = path_;
    op.name = given.text("name");
    op.domain = given.text("domain");
    if (op.domain.empty() || op.domain == "ai.onnx") given.fail("'domain' must not be ONNX's own");
    const std::string what = fmt::format("operator '{}'", op.full_name());
    const Table named = called(what);
    op.inputs = named.texts("inputs");
    std::set<std::string> names;
    const auto note = [&](const std::string& name) {
      if (!is_identifier(name)) named.fail(fmt::format("'{}' is no identifier", name));
      if (!names.insert(name).second) named.fail(fmt::format("'{}' is there twice", name));
    };
    for (const std::string& name : op.inputs) note(name);
    for (const toml::table* attributes : named.tables("attributes"))
      for (const auto& [key, node] : *attributes) {
        op.attributes.push_back(read_attribute(std::string(key.str()), node, named));
        note(op.attributes.back().name);
      }
    for (const toml::table* output : named.tables("output")) {
      op.outputs.push_back(read_output(*output, what, op));
      note(op.outputs.back().name);
    }
    if (op.outputs.empty()) named.fail("it has no [[operator.output]]");
    if (named.find("reference") != nullptr)
      op.reference =
          (std::filesystem::path(path_).parent_path() / named.text("reference")).string();
    for (const toml::table* cuda : named.tables("cuda")) read_cuda(*cuda, what, op, note);
    for (const toml::table* host : named.tables("host")) {
      op.is_host = true;
      op.host_library = Table(*host, path_, what + ", host", {"library"}).text("library", "");
    }
    const bool all_values =
        std::ranges::all_of(op.outputs, [](const auto& output) { return !output.value.empty(); });
    const bool any_value =
        std::ranges::any_of(op.outputs, [](const auto& output) { return !output.value.empty(); });
    if (any_value && !all_values) named.fail("some outputs have a 'value' and some have none");
    if (any_value && !op.reference.empty())
      named.fail("it has both values and a 'reference': one of them says what it computes");
    if (op.kernels.empty() && !op.is_host && !any_value && op.reference.empty())
      named.fail(
          "nothing says what it computes: give its outputs a 'value', name a model as its "
          "'reference', or give it [operator.cuda] or [operator.host]");
    if (op.inputs.empty()) named.fail("it has no inputs");
    return op;
  }

  static CustomOperator::Attribute read_attribute(const std::string& name, const toml::node& node,
                                                  const Table& table) {
    CustomOperator::Attribute attribute;
    attribute.name = name;
    if (const auto text = node.value_exact<std::string>()) {
      if (*text != "int" && *text != "float")
        table.fail(node,
                   fmt::format("attribute '{}' must be a number, its value where a node gives "
                               "none, or \"int\" or \"float\"",
                               name));
      attribute.is_required = true;
      attribute.is_float = *text == "float";
    } else if (const auto integer = node.value_exact<std::int64_t>()) {
      attribute.value = *integer;
    } else if (const auto number = node.value_exact<double>()) {
      attribute.is_float = true;
      attribute.value = *number;
    } else {
      table.fail(node,
                 fmt::format("attribute '{}' must be a number, or \"int\" or \"float\"", name));
    }
    return attribute;
  }

  CustomOperator::Output read_output(const toml::table& table, const std::string& what,
                                     const CustomOperator& op) const {
    const Table given(table, path_, what + ", output", {"name", "type", "shape", "value"});
    CustomOperator::Output output;
    output.name = given.name("name");
    output.type = given.text("type", "");
    const auto is_input = [&](const std::string& name) {
      return std::ranges::find(op.inputs, name) != op.inputs.end();
    };
    if (!output.type.empty() && !is_input(output.type) && !dtype_from_string(output.type))
      given.fail(*given.find("type"),
                 fmt::format("type = \"{}\" is neither an input nor an element type", output.type));
    if (const toml::node* shape = given.find("shape"); shape != nullptr && shape->is_string()) {
      output.shape_of = given.text("shape");
      if (!is_input(output.shape_of))
        given.fail(*shape,
                   fmt::format("shape = \"{}\" is no input; sizes are a list", output.shape_of));
    } else {
      output.shape = given.texts("shape");
    }
    output.value = given.text("value", "");
    return output;
  }

  template <typename Note>
  void read_cuda(const toml::table& table, const std::string& what, CustomOperator& op,
                 const Note& note) const {
    const Table given(table, path_, what + ", cuda",
                      {"source", "file", "cubin", "kernel", "workspace"});
    const auto has = [&](const char* key) { return given.find(key) != nullptr ? 1 : 0; };
    if (has("source") + has("file") + has("cubin") != 1)
      given.fail("it needs one of 'source', 'file' and 'cubin'");
    if (has("source") != 0) op.source = given.text("source");
    if (has("file") != 0) op.source = read_beside(path_, given.text("file"));
    op.source = with_includes(op.source, path_, op.domain + "::" + op.name);
    for (const toml::table* one : given.tables("cubin")) read_cubins(*one, given, op);
    for (const toml::table* one : given.tables("workspace")) {
      const Table workspace(*one, path_, what + ", workspace", {"name", "bytes"});
      op.workspace.push_back({workspace.name("name"), workspace.text("bytes")});
      note(op.workspace.back().name);
    }
    for (const toml::table* one : given.tables("kernel")) {
      const Table kernel(
          *one, path_, what + ", kernel",
          {"function", "grid", "block", "shared_bytes", "cluster", "arguments", "epilogue"});
      CustomOperator::Kernel made;
      made.function = kernel.name("function");
      if (op.cubins.empty() && op.source.find(made.function) == std::string::npos)
        kernel.fail(fmt::format("the CUDA text has no '{}'", made.function));
      made.grid = kernel.texts("grid");
      if (made.grid.empty() || made.grid.size() > 3)
        kernel.fail("'grid' must be one to three sizes");
      std::int64_t threads = 1;
      for (const std::string& text : kernel.texts("block")) {
        std::int64_t extent = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), extent);
        if (error != std::errc() || end != text.data() + text.size() || extent < 1 || extent > 1024)
          kernel.fail("'block' must be one to three integers from 1 to 1024");
        made.block.push_back(extent);
        threads *= extent;
      }
      if (made.block.empty() || made.block.size() > 3 || threads > 1024)
        kernel.fail("'block' must be one to three integers, 1024 threads at most");
      made.shared_bytes = kernel.text("shared_bytes", "");
      made.cluster = kernel.integer("cluster", 1, 8);
      made.arguments = kernel.texts("arguments");
      made.epilogue = kernel.texts("epilogue");
      check_epilogue(made, kernel, op);
      op.kernels.push_back(std::move(made));
    }
    if (op.kernels.empty()) given.fail("it has no [[operator.cuda.kernel]]");
    check_writers(given, op);
    const bool has_own = std::ranges::any_of(
        op.kernels, [](const CustomOperator::Kernel& kernel) { return kernel.epilogue.empty(); });
    if (has_own && op.cubins.empty() && op.source.find("extern \"C\"") == std::string::npos)
      given.fail("its kernels must be extern \"C\", so that they are found by name");
  }

  static void check_epilogue(const CustomOperator::Kernel& made, const Table& kernel,
                             const CustomOperator& op) {
    if (made.epilogue.empty()) return;
    const toml::node& at = *kernel.find("epilogue");
    if (!op.cubins.empty())
      kernel.fail(at,
                  "a cubin is compiled already, and an epilogue is compiled into the kernel: give "
                  "CUDA text as 'source' or 'file', or leave out 'epilogue'");
    for (const std::string& name : made.epilogue) {
      if (std::ranges::find(op.outputs, name, &CustomOperator::Output::name) == op.outputs.end())
        kernel.fail(at, fmt::format("epilogue: '{}' is no output", name));
      if (std::ranges::count(made.epilogue, name) != 1)
        kernel.fail(at, fmt::format("epilogue: '{}' is there twice", name));
      if (std::ranges::count(made.arguments, name) != 1)
        kernel.fail(at, fmt::format("epilogue: '{0}' must be one of 'arguments', once: there '{1}' "
                                    "takes an epilogues::{0}",
                                    name, made.function));
    }
    if (is_kernel(op.source, made.function))
      kernel.fail(at, fmt::format("'{0}' must be a __device__ function, not extern \"C\" "
                                  "__global__: the kernel around it, which makes an epilogues::{1} "
                                  "for it, is written by the compiler",
                                  made.function, made.epilogue[0]));
  }

  /// The values before an epilogue are in registers: no kernel reads or writes them in memory.
  static void check_writers(const Table& given, const CustomOperator& op) {
    for (const CustomOperator::Kernel& kernel : op.kernels)
      for (const std::string& name : kernel.epilogue)
        for (const CustomOperator::Kernel& other : op.kernels)
          if (&other != &kernel && std::ranges::count(other.arguments, name) != 0)
            given.fail(
                fmt::format("'{}' takes output '{}' too, which '{}' writes by store(i, "
                            "value) alone: leave it out of the one's 'arguments' or of the "
                            "other's 'epilogue'",
                            other.function, name, kernel.function));
  }

  void read_cubins(const toml::table& table, const Table& given, CustomOperator& op) const {
    for (const auto& [key, node] : table) {
      const std::string architecture(key.str());
      const auto path = node.value_exact<std::string>();
      if (!path) given.fail(node, fmt::format("the cubin of '{}' must be a path", architecture));
      if (!architecture.starts_with("sm_") || architecture.size() < 5)
        given.fail(node, fmt::format("'{}' is no architecture: write sm_90", architecture));
      op.cubins.emplace(architecture, read_beside(path_, *path));
    }
    if (op.cubins.empty()) given.fail("'cubin' has no files: cubin = { sm_90 = \"file.cubin\" }");
  }

  const std::string& path_;
};

/// The parser limits the nesting of values, but not the parts of a dotted key (a.b.c), each of
/// which uses stack.
void check_keys(std::string_view text, const std::string& path) {
  constexpr std::ptrdiff_t kMostDots = 1000;
  std::size_t line = 1;
  for (std::size_t at = 0; at < text.size(); ++line) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    if (std::ranges::count(text.substr(at, end - at), '.') > kMostDots)
      throw usage_error("{}, line {}: it has more than {} dots", path, line, kMostDots);
    at = end + 1;
  }
}

}  // namespace

std::vector<CustomOperator> parse_custom_operators(std::string_view text, const std::string& path) {
  check_keys(text, path);
  try {
    return Reader(path).read(toml::parse(text, path));
  } catch (const toml::parse_error& error) {
    throw usage_error("{}, line {}: {}", path, error.source().begin.line, error.description());
  }
}

std::vector<CustomOperator> read_custom_operators(const std::string& path) {
  return parse_custom_operators(read_file(path), path);
}

}  // namespace sinter::frontend
