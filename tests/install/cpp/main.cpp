// SPDX-License-Identifier: Apache-2.0
// Compiles the model argv[1] for the CPU, runs it on ones and writes the plan to argv[2].
#include <cstdio>
#include <fstream>
#include <vector>

#include <sinter/compiler.h>
#include <sinter/sinter.h>

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  sinter::CompileOptions options;
  options.target = "cpu";
  const sinter::CompileResult result = sinter::compile(sinter::Model(argv[1]), options);
  std::ofstream(argv[2], std::ios::binary)
      .write(reinterpret_cast<const char*>(result.plan.data()),
             static_cast<std::streamsize>(result.plan.size()));
  sinter::Session session(sinter::Plan::from_memory(result.plan));
  const auto& input = session.plan().inputs()[0];
  std::vector<std::int64_t> shape;
  std::int64_t count = 1;
  for (const auto& dim : input.shape) shape.push_back(dim.min), count *= dim.min;
  const std::vector<float> ones(static_cast<std::size_t>(count), 1.0F);
  session.set_input(0, shape, ones);
  session.run();
  std::printf("%s: %lld elements\n", session.plan().outputs()[0].name.c_str(),
              static_cast<long long>(session.output(0).element_count()));
  try {
    (void)sinter::compile(sinter::Model("no_such_file.onnx"), options);
  } catch (const sinter::CompileError& error) {  // by its own type, across the library's border
    std::printf("refused: %s\n", error.what());
    return 0;
  }
  return 1;
}
