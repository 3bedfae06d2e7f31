// shorten_lock.mjs -- node shorten_lock.mjs, after `npm install` here: writes package-lock.json with a package per line and without what
// `npm ci` does not read (licenses, engines, funding), in half of the bytes.
import fs from 'node:fs';
const { name, lockfileVersion, requires, packages } = JSON.parse(fs.readFileSync('package-lock.json'));
const lines = Object.entries(packages).map(([key, { license, engines, funding, ...rest }]) => `${JSON.stringify(key)}:${JSON.stringify(rest)}`);
const head = JSON.stringify({ name, lockfileVersion, requires }).slice(0, -1);
fs.writeFileSync('package-lock.json', `${head},"packages":{\n${lines.join(',\n')}\n}}\n`);
