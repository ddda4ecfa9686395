// SPDX-License-Identifier: Apache-2.0
// Operators that a user defines: as an expression of elements, as another model, by CUDA text, or
// by a host function.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace sinter::frontend {

/// One operator of a definition file; frontend/custom/README.md says what the texts may be.
struct CustomOperator {
  using Number = std::variant<std::int64_t, double>;
  struct Attribute {
    std::string name;
    bool is_float = false;
    bool is_required = false;
    Number value = std::int64_t{0};  // where a node gives none
  };
  struct Output {
    std::string name;
    std::string type;  // "f32", or the name of an input that has it; empty: the first input's
    /// Sizes, one for each dimension; or an input that has the shape. Neither: of what `value` is,
    /// else of the first input.
    std::vector<std::string> shape;
    std::string shape_of;
    std::string value;  // an expression of elements; may be empty
  };
  struct Workspace {
    std::string name;
    std::string bytes;
  };
  struct Kernel {
    std::string function;
    std::vector<std::string> grid;    // one to three
    std::vector<std::int64_t> block;  // one to three
    std::string shared_bytes;         // dynamic shared memory; empty: none
    std::int64_t cluster = 1;         // blocks
    std::vector<std::string> arguments;
    /// Outputs among the arguments that it writes by store(i, value) alone. If there are any, the
    /// function is a device function, around which the kernel is written.
    std::vector<std::string> epilogue;
  };

  std::string domain, name;
  std::vector<std::string> inputs;
  std::vector<Attribute> attributes;
  std::vector<Output> outputs;
  std::string reference;  // path of a model that computes the same; may be empty
  std::string source;     // CUDA text
  std::map<std::string, std::string> cubins;  // bytes by architecture ("sm_90"), in place of text
  std::vector<Workspace> workspace;
  std::vector<Kernel> kernels;
  bool is_host = false;      // a function of a library computes it
  std::string host_library;  // what the library is called, for people; may be empty
  std::string file;          // where it is defined

  std::string full_name() const { return domain + "::" + name; }
};

}  // namespace sinter::frontend
