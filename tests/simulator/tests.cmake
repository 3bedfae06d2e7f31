# What runs on libgfxsim.so.  Included by tests/CMakeLists.txt.
if(NOT TARGET gfxsim)
  return()
endif()
if(NOT FORGEC_SIMT_CLANG)                        # found by tests/lanes
  message(STATUS "no tests of the simulator: they need clang")
  return()
endif()
set(GFXSIM_CHIPS gfx942 gfx1100 gfx1151)
set(GFXSIM "${CMAKE_CURRENT_LIST_DIR}")

# ---- decoding, every instruction, planted bugs ----
# gfxsim_test(NAME COMMAND...): clang is the one that forgec takes
function(gfxsim_test name)
  forgec_test(${name} TIMEOUT 600 COST 30 COMMAND ${ARGN})
  set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT "FORGEC_CLANG=${FORGEC_SIMT_CLANG}")
endfunction()
add_executable(test_decode "${GFXSIM}/test_decode.c")
gfxsim_flags(test_decode)
target_link_libraries(test_decode PRIVATE forgec::cmocka Threads::Threads ${CMAKE_DL_LIBS} m)
if(FORGEC_SANITIZE)                              # damaged code objects want them
  get_target_property(sources gfxsim_objects SOURCES)
  list(TRANSFORM sources PREPEND "${CMAKE_SOURCE_DIR}/simulator/" REGEX "^[^/]")
  target_sources(test_decode PRIVATE ${sources})
  target_compile_options(test_decode PRIVATE -O1 -fsanitize=${FORGEC_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(test_decode PRIVATE -fsanitize=${FORGEC_SANITIZE})
else()
  target_sources(test_decode PRIVATE $<TARGET_OBJECTS:gfxsim_objects>)
endif()
gfxsim_test(gfxsim_decode test_decode)

foreach(name IN ITEMS test_bugs test_instructions test_peers)
  add_executable(${name} "${GFXSIM}/${name}.c")
  gfxsim_flags(${name})
  target_link_libraries(${name} PRIVATE Threads::Threads ${CMAKE_DL_LIBS} m)
endforeach()
file(GLOB GFXSIM_TEMPLATES CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/templates/gpu/*.h" "${CMAKE_SOURCE_DIR}/templates/gpu/machine/*.h")
foreach(chip IN LISTS GFXSIM_CHIPS)
  set(code "${CMAKE_CURRENT_BINARY_DIR}/bugs.${chip}.co")
  add_custom_command(OUTPUT "${code}" COMMAND "${CMAKE_COMMAND}" -E env "FORGEC_CLANG=${FORGEC_SIMT_CLANG}" sh compile.sh ${chip} bugs.c "${code}"
    DEPENDS "${GFXSIM}/bugs.c" "${GFXSIM}/compile.sh" ${GFXSIM_TEMPLATES} WORKING_DIRECTORY "${GFXSIM}" VERBATIM COMMENT "Compiling kernels with bugs for ${chip}")
  list(APPEND GFXSIM_BUGS "${code}")
  gfxsim_test(gfxsim_bugs_${chip} test_bugs $<TARGET_FILE:gfxsim> "${code}")
  gfxsim_test(gfxsim_instructions_${chip} test_instructions $<TARGET_FILE:gfxsim> ${chip} -o "${GFXSIM}/opcodes.txt")
endforeach()
add_custom_target(gfxsim_bugs ALL DEPENDS ${GFXSIM_BUGS})
# two chips at once
foreach(chip IN ITEMS gfx942 gfx1100)
  set(code "${CMAKE_CURRENT_BINARY_DIR}/peers.${chip}.co")
  add_custom_command(OUTPUT "${code}" COMMAND "${CMAKE_COMMAND}" -E env "FORGEC_CLANG=${FORGEC_SIMT_CLANG}" sh compile.sh ${chip} peers.c "${code}"
    DEPENDS "${GFXSIM}/peers.c" "${GFXSIM}/compile.sh" ${GFXSIM_TEMPLATES} WORKING_DIRECTORY "${GFXSIM}" VERBATIM COMMENT "Compiling kernels of two chips for ${chip}")
  list(APPEND GFXSIM_PEERS "${code}")
  gfxsim_test(gfxsim_peers_${chip} test_peers $<TARGET_FILE:gfxsim> ${chip} "${code}")
endforeach()
add_custom_target(gfxsim_peers ALL DEPENDS ${GFXSIM_PEERS})
foreach(of IN ITEMS gfx942-2 gfx942-4 gfx1100-2)   # sums of GPUs that share a model
  string(REPLACE "-" ";" of ${of})
  list(GET of 0 chip)
  list(GET of 1 gpus)
  forgec_test(gfxsim_exchange_${chip}_${gpus} COST 10 COMMAND "${CMAKE_COMMAND}" -E env "GFXSIM=$<TARGET_FILE:gfxsim>" GPUS=${gpus}
    "FORGEC_CLANG=${FORGEC_SIMT_CLANG}" sh "${CMAKE_SOURCE_DIR}/tests/device/run_exchange.sh" sim:${chip})
endforeach()

# ---- whole programs: stored logits and tokens, one model a format, prefill and decode ----
if(NOT TARGET forgec)
  return()
endif()
# gfxsim_golden(NAME CHIP ARGUMENTS...)
function(gfxsim_golden name chip)
  forgec_test(golden_sim_${name} COST 20 COMMAND test_golden $<TARGET_FILE:forgec> ${ARGN})
  set_property(TEST golden_sim_${name} APPEND PROPERTY ENVIRONMENT "FORGE_HIP_LIBRARY=$<TARGET_FILE:gfxsim>" "FORGE_GFXSIM_CHIP=${chip}" FORGE_GFXSIM_THREADS=1 ${GOLDEN_SIM_LONG})
endfunction()
# Models this small keep a few compute units busy, the groups of all others would take most of the time: so most programs are built for a chip of the same
# instructions with six of them.
# The chips share the formats, a twelfth each when fused, gfx942 has another when not: formats_CHIP has all of them against the reference.
# qwen's operations: architectures_gfx*, gpus_chips.  FORGEC_FULL: all formats fused on each chip, all unfused on one, all operations on each.
set(part 0)
foreach(chip IN LISTS GFXSIM_CHIPS)
  set(few "${GFXSIM}/${chip}-few.yaml")
  if(FORGEC_FULL)
    gfxsim_golden(${chip}_layer_0 ${chip} "${TEST_DATA}/golden" target "${few}" 0/2 layer default)
    gfxsim_golden(${chip}_layer_1 ${chip} "${TEST_DATA}/golden" target "${few}" 1/2 layer default)
    gfxsim_golden(${chip}_none ${chip} "${TEST_DATA}/golden" target "${few}" ${part}/3 none default)
  else()
    gfxsim_golden(${chip}_layer ${chip} "${TEST_DATA}/golden" target "${few}" ${part}/12 layer default)
    if(chip STREQUAL gfx942)
      gfxsim_golden(${chip}_none ${chip} "${TEST_DATA}/golden" target "${few}" 3/12 none default)
    endif()
  endif()
  math(EXPR part "${part} + 1")
  if(FORGEC_FULL)
    gfxsim_golden(${chip}_qwen ${chip} "${TEST_DATA}/golden" target "${few}" 0/1 layer default)
    golden_env(golden_sim_${chip}_qwen GOLDEN_ONLY=qwen)
  endif()
endforeach()
# A window and its ring, which goes round.
foreach(chip IN ITEMS gfx1151 gfx942)
  if(NOT FORGEC_FULL AND chip STREQUAL gfx942)
    continue()
  endif()
  gfxsim_golden(${chip}_window ${chip} "${TEST_DATA}/golden" target "${GFXSIM}/${chip}-ring.yaml" 0/1 layer default)
  set_property(TEST golden_sim_${chip}_window APPEND PROPERTY ENVIRONMENT GOLDEN_ONLY=olmo3)
endforeach()
# Several parts of decode attention and their merge.
foreach(chip IN LISTS GFXSIM_CHIPS)
  if(NOT FORGEC_FULL AND NOT chip STREQUAL gfx1151)              # gfx942 executes them in gfxsim_attention_decode
    continue()
  endif()
  gfxsim_golden(${chip}_long ${chip} "${TEST_DATA}/golden" target "${GFXSIM}/${chip}-few.yaml" 0/1 layer default)
  golden_env(golden_sim_${chip}_long GOLDEN_ONLY=q-untied GOLDEN_LONG=136)
endforeach()
if(FORGEC_FULL)                                  # else architectures_gfx*, in turn exact
  gfxsim_golden(exact gfx942 "${TEST_DATA}/golden" target "${GFXSIM}/gfx942-few.yaml" 5/100 layer exact)
endif()
foreach(chip IN ITEMS gfx1151 gfx942)
  if(NOT FORGEC_FULL AND chip STREQUAL gfx942)                   # whose groups take twice as long
    continue()
  endif()
  gfxsim_golden(${chip}_whole ${chip} "${TEST_DATA}/golden" target ${chip} 0/100 layer default)
endforeach()

# ---- what users see of it; the report's bytes against counted ones ----
set(STORYTELLER "${CMAKE_SOURCE_DIR}/examples/storyteller/storyteller-7m-q8_0.gguf")
forgec_test(simulate COST 35 COMMAND sh "${GFXSIM}/run_simulate.sh" $<TARGET_FILE:forgec> "${TEST_DATA}/golden/q-llama-Q8_0.gguf")
add_executable(test_counters "${GFXSIM}/test_counters.c")
target_link_libraries(test_counters PRIVATE forgec_core)
foreach(chip IN LISTS GFXSIM_CHIPS)
  set(code "${CMAKE_CURRENT_BINARY_DIR}/counted.${chip}.co")
  add_custom_command(OUTPUT "${code}" COMMAND "${CMAKE_COMMAND}" -E env "FORGEC_CLANG=${FORGEC_SIMT_CLANG}" sh compile.sh ${chip} counted.c "${code}"
    DEPENDS "${GFXSIM}/counted.c" "${GFXSIM}/compile.sh" ${GFXSIM_TEMPLATES} WORKING_DIRECTORY "${GFXSIM}" VERBATIM COMMENT "Compiling kernels to count for ${chip}")
  list(APPEND GFXSIM_COUNTED "${code}")
  gfxsim_test(gfxsim_counted_${chip} test_counters --planted $<TARGET_FILE:run_kernel> "${code}" ${chip})
endforeach()
add_custom_target(gfxsim_counted ALL DEPENDS ${GFXSIM_COUNTED})
foreach(chip IN ITEMS gfx942 gfx1100)
  if(chip STREQUAL gfx1100 AND NOT FORGEC_FULL)
    continue()
  endif()
  forgec_test(gfxsim_counters_${chip} COST 30 COMMAND test_counters "${STORYTELLER}" ${chip})
  set_property(TEST gfxsim_counters_${chip} APPEND PROPERTY ENVIRONMENT "FORGEC_GFXSIM=$<TARGET_FILE:gfxsim>")
endforeach()

set(GFXSIM_CHANNELS "${CMAKE_CURRENT_BINARY_DIR}/channels.gfx1151.co")
add_custom_command(OUTPUT "${GFXSIM_CHANNELS}" COMMAND "${CMAKE_COMMAND}" -E env "FORGEC_CLANG=${FORGEC_SIMT_CLANG}" sh compile.sh gfx1151 channels.c "${GFXSIM_CHANNELS}"
  DEPENDS "${GFXSIM}/channels.c" "${GFXSIM}/compile.sh" ${GFXSIM_TEMPLATES} WORKING_DIRECTORY "${GFXSIM}" VERBATIM COMMENT "Compiling kernels that read rows for gfx1151")
add_custom_target(gfxsim_channels_code ALL DEPENDS "${GFXSIM_CHANNELS}")
add_executable(test_channels "${GFXSIM}/test_channels.c")
target_link_libraries(test_channels PRIVATE forgec_core m)
gfxsim_test(gfxsim_channels test_channels $<TARGET_FILE:run_kernel> "${GFXSIM_CHANNELS}")
set_property(TEST gfxsim_channels APPEND PROPERTY ENVIRONMENT "FORGEC_GFXSIM=$<TARGET_FILE:gfxsim>")

forgec_test(layout COST 30 COMMAND sh "${GFXSIM}/run_layout.sh" $<TARGET_FILE:forgec> $<TARGET_FILE:make_gguf> $<$<BOOL:${FORGEC_FULL}>:full>)
set_property(TEST layout APPEND PROPERTY ENVIRONMENT "FORGEC_GFXSIM=$<TARGET_FILE:gfxsim>")

# ---- attention far into a text, by its counts ----
foreach(chip IN LISTS GFXSIM_CHIPS)
  if(FORGEC_FULL OR chip STREQUAL gfx1151)
    forgec_test(depth_${chip} COST 20 COMMAND sh "${GFXSIM}/run_depth.sh" $<TARGET_FILE:forgec> $<TARGET_FILE:make_gguf> $<TARGET_FILE:run_kernel> ${chip} $<$<BOOL:${FORGEC_FULL}>:full>)
  endif()
endforeach()

# ---- an 8B model by its counts ----
foreach(chip IN LISTS GFXSIM_CHIPS)
  if(chip STREQUAL gfx1100 AND NOT FORGEC_FULL)    # gfx1151 has its instructions
    continue()
  endif()
  forgec_test(floors_${chip} COST 25 COMMAND sh "${GFXSIM}/run_floors.sh" $<TARGET_FILE:forgec> $<TARGET_FILE:make_gguf> ${chip} $<$<BOOL:${FORGEC_FULL}>:full>)
  set_property(TEST floors_${chip} APPEND PROPERTY ENVIRONMENT "FORGEC_GFXSIM=$<TARGET_FILE:gfxsim>")
endforeach()
