# The tests that run on libgfxsim.so.  Included by tests/CMakeLists.txt.
if(NOT TARGET gfxsim)
  return()
endif()
if(NOT FORGEC_SIMT_CLANG)                        # found by tests/lanes
  message(STATUS "no tests of the simulator: they need clang")
  return()
endif()
set(FORGEC_ROOM simulator)
set(GFXSIM_CHIPS gfx942 gfx1100 gfx1151)
# gfx1100 has the instructions of gfx1151, so it gets the same tests only in the tier full.
set(GFXSIM_DEFAULT_CHIPS gfx942 gfx1151)
if(FORGEC_FULL)
  set(GFXSIM_DEFAULT_CHIPS ${GFXSIM_CHIPS})
endif()
set(GFXSIM "${CMAKE_CURRENT_LIST_DIR}")

# ---- decoding, every instruction, planted bugs ----
# gfxsim_test(NAME COMMAND...): with the clang that forgec would use
function(gfxsim_test name)
  forgec_test(${name} TIMEOUT 600 COST 30 COMMAND ${ARGN})
  forgec_test_env(${name} "FORGEC_CLANG=${FORGEC_SIMT_CLANG}")
endfunction()
add_executable(test_decode "${GFXSIM}/test_decode.c")
gfxsim_flags(test_decode)
target_link_libraries(test_decode PRIVATE forgec::cmocka Threads::Threads ${CMAKE_DL_LIBS} m)
if(FORGEC_SANITIZE)                              # for damaged code objects
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
foreach(chip IN LISTS GFXSIM_DEFAULT_CHIPS)
  set(code "${CMAKE_CURRENT_BINARY_DIR}/bugs.${chip}.co")
  add_custom_command(OUTPUT "${code}" COMMAND "${CMAKE_COMMAND}" -E env "FORGEC_CLANG=${FORGEC_SIMT_CLANG}" sh compile.sh ${chip} bugs.c "${code}"
    DEPENDS "${GFXSIM}/bugs.c" "${GFXSIM}/compile.sh" ${GFXSIM_TEMPLATES} WORKING_DIRECTORY "${GFXSIM}" VERBATIM COMMENT "Compiling kernels with bugs for ${chip}")
  list(APPEND GFXSIM_BUGS "${code}")
  gfxsim_test(gfxsim_bugs_${chip} test_bugs $<TARGET_FILE:gfxsim> "${code}")
  gfxsim_test(gfxsim_instructions_${chip} test_instructions $<TARGET_FILE:gfxsim> ${chip} -o "${GFXSIM}/opcodes.txt")
endforeach()
add_custom_target(gfxsim_bugs ALL DEPENDS ${GFXSIM_BUGS})
# two chips at once
set(GFXSIM_PEERS_CHIPS gfx942)
if(FORGEC_FULL)
  list(APPEND GFXSIM_PEERS_CHIPS gfx1100)
endif()
foreach(chip IN LISTS GFXSIM_PEERS_CHIPS)
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
  set(tier)
  if(NOT of STREQUAL "gfx942;4")
    set(tier FULL)
  endif()
  forgec_test(gfxsim_collective_${chip}_${gpus} ${tier} ROOM amd COST 10 COMMAND "${CMAKE_COMMAND}" -E env "GFXSIM=$<TARGET_FILE:gfxsim>" GPUS=${gpus}
    "FORGEC_CLANG=${FORGEC_SIMT_CLANG}" sh "${CMAKE_SOURCE_DIR}/tests/device/run_collective.sh" sim:${chip})
endforeach()

if(NOT TARGET forgec)
  return()
endif()

# ---- its output for users; bytes in the report compared with counted bytes ----
forgec_test(simulate COST 35 COMMAND sh "${GFXSIM}/run_simulate.sh" $<TARGET_FILE:forgec> "${TEST_DATA}/golden/q-llama-Q8_0.gguf")
add_executable(test_counters "${GFXSIM}/test_counters.c")
target_link_libraries(test_counters PRIVATE forgec_core)
foreach(chip IN LISTS GFXSIM_DEFAULT_CHIPS)
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
  forgec_test_env(gfxsim_counters_${chip} "FORGEC_GFXSIM=$<TARGET_FILE:gfxsim>")
endforeach()

set(GFXSIM_CHANNELS "${CMAKE_CURRENT_BINARY_DIR}/channels.gfx1151.co")
add_custom_command(OUTPUT "${GFXSIM_CHANNELS}" COMMAND "${CMAKE_COMMAND}" -E env "FORGEC_CLANG=${FORGEC_SIMT_CLANG}" sh compile.sh gfx1151 channels.c "${GFXSIM_CHANNELS}"
  DEPENDS "${GFXSIM}/channels.c" "${GFXSIM}/compile.sh" ${GFXSIM_TEMPLATES} WORKING_DIRECTORY "${GFXSIM}" VERBATIM COMMENT "Compiling kernels that read rows for gfx1151")
add_custom_target(gfxsim_channels ALL DEPENDS "${GFXSIM_CHANNELS}")
add_executable(test_channels "${GFXSIM}/test_channels.c")
target_link_libraries(test_channels PRIVATE forgec_core m)
gfxsim_test(gfxsim_channels test_channels $<TARGET_FILE:run_kernel> "${GFXSIM_CHANNELS}")
forgec_test_env(gfxsim_channels "FORGEC_GFXSIM=$<TARGET_FILE:gfxsim>")

forgec_test(layout COST 30 COMMAND sh "${GFXSIM}/run_layout.sh" $<TARGET_FILE:forgec> $<TARGET_FILE:make_gguf>)
forgec_test_env(layout "FORGEC_GFXSIM=$<TARGET_FILE:gfxsim>")

# ---- attention after long texts, by the simulator's counts ----
foreach(chip IN LISTS GFXSIM_CHIPS)
  if(FORGEC_FULL OR chip STREQUAL gfx1151)
    forgec_test(depth_${chip} COST 20 COMMAND sh "${GFXSIM}/run_depth.sh" $<TARGET_FILE:forgec> $<TARGET_FILE:make_gguf> $<TARGET_FILE:run_kernel> ${chip})
  endif()
endforeach()

# ---- an 8B model, by the simulator's counts ----
foreach(chip IN LISTS GFXSIM_CHIPS)
  if(chip STREQUAL gfx1100 AND NOT FORGEC_FULL)    # gfx1151 has its instructions
    continue()
  endif()
  forgec_test(floors_${chip} COST 25 COMMAND sh "${GFXSIM}/run_floors.sh" $<TARGET_FILE:forgec> $<TARGET_FILE:make_gguf> ${chip})
  forgec_test_env(floors_${chip} "FORGEC_GFXSIM=$<TARGET_FILE:gfxsim>")
endforeach()
