// Compares the calendars that Madeira ships with the npm packages chinese-days and
// date-holidays, and writes their lists down for the tests of jobs/calendar, which
// need no network. Nothing of the product uses these packages.
//
//   cd "$(mktemp -d)" && npm install chinese-days date-holidays js-yaml
//   NODE_PATH=node_modules node /path/to/madeira/tools/calendars/check.mjs [--write]
//
// Prints what differs and exits with 1 when something does.
import {readFileSync, writeFileSync} from 'node:fs'
import {createRequire} from 'node:module'
import {dirname, join} from 'node:path'
import {fileURLToPath} from 'node:url'

const load = createRequire(join(process.cwd(), 'x.js'))
const Holidays = load('date-holidays')
const yaml = load('js-yaml')
const chinese = JSON.parse(readFileSync(load.resolve('chinese-days').replace(/dist.*$/, 'dist/chinese-days.json')))
const version = name => JSON.parse(readFileSync(join('node_modules', name, 'package.json'))).version

const root = join(dirname(fileURLToPath(import.meta.url)), '../../jobs/calendar')
const range = (from, to) => Array.from({length: to - from + 1}, (_, i) => from + i)

// of lists the days off of a year in a country of date-holidays.
function of(year, country, state, keep = h => h.type === 'public' || h.type === 'bank') {
  return new Holidays(country, state).getHolidays(year).filter(keep).map(h => h.date.slice(0, 10))
}

const lists = {
  cn: {
    source: `npm chinese-days ${version('chinese-days')}`, years: range(2024, 2026),
    off: y => Object.keys(chinese.holidays).filter(d => d.startsWith(`${y}-`)),
    worked: y => Object.keys(chinese.workdays).filter(d => d.startsWith(`${y}-`)),
  },
  hk: {source: `npm date-holidays ${version('date-holidays')}, HK`, years: range(2024, 2027), off: y => of(y, 'HK')},
  'us-federal': {source: `npm date-holidays ${version('date-holidays')}, US`, years: range(2020, 2035), off: y => of(y, 'US')},
  uk: {source: `npm date-holidays ${version('date-holidays')}, GB-ENG`, years: range(2020, 2035), off: y => of(y, 'GB', 'ENG')},
  'eu-target': {
    // date-holidays has no TARGET: Easter is taken from Germany, the fixed days from the decision of the ECB.
    source: `npm date-holidays ${version('date-holidays')}, DE (Good Friday and Easter Monday), and the four fixed days of the ECB's decision`,
    years: range(2020, 2035),
    off: y => [...of(y, 'DE', undefined, h => ['easter -2', 'easter 1'].includes(h.rule)), `${y}-01-01`, `${y}-05-01`, `${y}-12-25`, `${y}-12-26`],
  },
}

const iso = t => new Date(t).toISOString().slice(0, 10)

// businessDays returns the days of a year that are neither off nor of a weekend, or are worked all the same.
function businessDays(year, off, worked) {
  const days = []
  for (let t = Date.UTC(year, 0, 1); t < Date.UTC(year + 1, 0, 1); t += 864e5) {
    const weekend = [0, 6].includes(new Date(t).getUTCDay())
    const day = iso(t)
    if (!off.has(day) && (!weekend || worked.has(day))) days.push(day)
  }
  return days
}

let differences = 0
for (const [name, list] of Object.entries(lists)) {
  const ours = yaml.load(readFileSync(join(root, 'shipped', name + '.yaml'), 'utf8'), {schema: yaml.FAILSAFE_SCHEMA})
  const lines = [`# ${name}: ${list.source}`]
  for (const year of list.years) {
    const off = new Set(list.off(year))
    const worked = new Set(list.worked ? list.worked(year) : [])
    lines.push(...[...off].sort().map(d => `${d} off`), ...[...worked].sort().map(d => `${d} worked`))
    const theirs = businessDays(year, off, worked)
    const mine = businessDays(year, new Set(Object.keys(ours.years[year].holidays ?? {})), new Set(Object.keys(ours.years[year].extra_workdays ?? {})))
    for (const d of theirs.filter(d => !mine.includes(d))) { console.log(`${name}: ${d} is off here, a business day in ${list.source}`); differences++ }
    for (const d of mine.filter(d => !theirs.includes(d))) { console.log(`${name}: ${d} is a business day here, off in ${list.source}`); differences++ }
  }
  if (process.argv.includes('--write')) writeFileSync(join(root, 'testdata/published', name + '.txt'), lines.join('\n') + '\n')
}

// date-holidays knows the days of China that the law names, not what the notices make of them: each has to
// be off here. It is wrong about 2024-02-09: the eve of the Spring Festival is a holiday from 2025 on, and
// the notice for 2024 begins with the 10th. Half days of some people are none here.
const halfDays = /妇女节|青年节|儿童节|建军节/
const cn = yaml.load(readFileSync(join(root, 'shipped/cn.yaml'), 'utf8'), {schema: yaml.FAILSAFE_SCHEMA})
for (const year of range(2024, 2026)) {
  for (const d of of(year, 'CN', undefined, h => h.type === 'public' && !halfDays.test(h.name))) {
    if (!cn.years[year].holidays[d] && d !== '2024-02-09') { console.log(`cn: ${d} is a business day here, off in date-holidays`); differences++ }
  }
}
console.log(`${differences} differences`)
process.exit(differences > 0 ? 1 : 0)
