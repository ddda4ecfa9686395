// The `sinter` command: parses arguments, runs one verb, turns errors into exit codes.
#pragma once

namespace sinter::tools {

/// Returns the exit code: 0 done; 1 a comparison failed; 2 usage; 3 unsupported; 4 invalid model;
/// 5 invalid plan; 6 out of memory; 7 device; 70 a defect of Sinter.
int run_cli(int argc, char** argv);

}  // namespace sinter::tools
