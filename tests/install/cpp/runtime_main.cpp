// SPDX-License-Identifier: Apache-2.0
// Runs the plan argv[1] on ones; links the runtime alone.
#include <cstdio>
#include <vector>

#include <sinter/sinter.h>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  sinter::Session session(sinter::Plan::load(argv[1]));
  std::vector<std::int64_t> shape;
  std::int64_t count = 1;
  for (const auto& dim : session.plan().inputs()[0].shape)
    shape.push_back(dim.min), count *= dim.min;
  session.set_input(0, shape, std::vector<float>(static_cast<std::size_t>(count), 1.0F));
  session.run();
  std::printf("sinter %s: %lld elements\n", std::string(sinter::version()).c_str(),
              static_cast<long long>(session.output(0).element_count()));
  try {
    sinter::Plan::load("no_such_file.plan");
  } catch (const sinter::Error& error) {
    return error.code() == sinter::ErrorCode::kUsage ? 0 : 1;
  }
  return 1;
}
