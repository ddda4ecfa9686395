// SPDX-License-Identifier: Apache-2.0
// User-defined operators: an element-wise expression, another model, CUDA text, or a host function.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace sinter::frontend {

/// One operator of a definition file; frontend/custom/README.md describes the texts.
struct CustomOperator {
  using Number = std::variant<std::int64_t, double>;
  struct Attribute {
    std::string name;
    bool is_float = false;
    bool is_required = false;
    Number value = std::int64_t{0};  // default value
  };
  struct Output {
    std::string name;
    std::string type;  // "f32", or the name of an input with the same type; empty: the first
                       // input's type
    /// Either sizes, one per dimension, or the name of an input with the same shape. Neither: the
    /// shape of `value`, else of the first input.
    std::vector<std::string> shape;
    std::string shape_of;
    std::string value;  // an element-wise expression; may be empty
  };
  struct Workspace {
    std::string name;
    std::string bytes;
  };
  struct Kernel {
    std::string function;
    std::vector<std::string> grid;    // 1 to 3 sizes
    std::vector<std::int64_t> block;  // 1 to 3 sizes
    std::string shared_bytes;         // dynamic shared memory; empty: none
    std::int64_t cluster = 1;         // blocks per cluster
    std::vector<std::string> arguments;
    /// Outputs that the kernel writes only through store(i, value). If there are any, the function
    /// is a device function, and the kernel around it is generated.
    std::vector<std::string> epilogue;
  };

  std::string domain, name;
  std::vector<std::string> inputs;
  std::vector<Attribute> attributes;
  std::vector<Output> outputs;
  std::string reference;  // path of a model that computes the same; may be empty
  std::string source;     // CUDA text
  std::map<std::string, std::string> cubins;  // cubins by architecture ("sm_90"), instead of text
  std::vector<Workspace> workspace;
  std::vector<Kernel> kernels;
  bool is_host = false;      // a library function computes it
  std::string host_library;  // human-readable name of the library; may be empty
  std::string file;          // path of the definition file

  std::string full_name() const { return domain + "::" + name; }
};

}  // namespace sinter::frontend
